// From preferences whose schedules are within the budget to a schedule whose addresses are: placement has a say in what
// is chosen.
#pragma once

#include <optional>
#include <vector>

#include "plan/search/search.h"

namespace ebbtide::plan {

// A schedule with addresses.
struct Fitted {
  sim::Schedule schedule;
  Nanos time = kInfeasible;
  Bytes height = 0;  // within the budget
};

// The fastest schedule with addresses of those that the preferences lead to for the budget and for a little less, and
// then of those that small changes lead to. `enough`: a time that ends the search, as nothing faster is expected. None:
// no addresses were within the budget. `stop` of the options is not asked: that a schedule is fast enough says nothing
// of its addresses. Does not depend on the number of threads.
std::optional<Fitted> FitAddresses(const Problem& problem, const std::vector<Preferences>& preferences, Nanos enough,
                                   const SearchOptions& options);

}  // namespace ebbtide::plan
