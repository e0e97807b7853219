// What would have fitted: each remedy with the figure that speaks for it.
#pragma once

#include <string_view>

#include "jobs/explain.h"

namespace ebbtide::jobs {

// Whether the recorded requests, the failed one among them, pass with torch's expandable segments on the same memory.
// nullopt: the model of the allocator as it was does not fail where the recording did, so it cannot tell.
std::optional<bool> FitsWithExpandableSegments(std::string_view pickle, const ExplainRequest& request,
                                               const trace::HeldMemory& memory);

// Fills `remedies` from the other fields.
void AddRemedies(ExplainResult& result, std::optional<bool> fits_expandable);

}  // namespace ebbtide::jobs
