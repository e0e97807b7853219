// Several pages as one, with a choice between them: those of a dry run's ranks, of a pipeline's stages.
#pragma once

#include <string>

#include "jobs/estimate.h"
#include "report/dryrun.h"

namespace ebbtide::report {

// `run` has a main process with a timeline. Ranks without one are named and not shown.
std::string DryrunPage(const Dryrun& run);

// Of a pipeline, a page for each stage.
std::string EstimatePage(const jobs::EstimateResult& prediction);

}  // namespace ebbtide::report
