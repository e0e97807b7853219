// The page of a dry run: of one process, or of each rank, with a choice between them.
#pragma once

#include <string>

#include "report/dryrun.h"

namespace ebbtide::report {

// `run` has a main process with a timeline. Ranks without one are named and not shown.
std::string DryrunPage(const Dryrun& run);

}  // namespace ebbtide::report
