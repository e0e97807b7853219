// A prediction as one of torch's memory snapshots.
#pragma once

#include <string>

#include "jobs/estimate.h"

namespace ebbtide::report {

// The bytes of a pickle in the form of torch's memory snapshots; of a job that does not fit, up to the request that
// fails. The allocator that the prediction was made with is a model of segments.
std::string EstimateSnapshot(const jobs::EstimateResult& prediction);

}  // namespace ebbtide::report
