// The largest batch of a MODEL on a GPU: `fit`, and `estimate` where a job does not fit.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "cli/common_flags.h"
#include "estimate/estimate.h"

namespace ebbtide::cli {

// Whether graphs of MODEL can be made for one batch after another: of a graph file they cannot, and a capture for each
// would take minutes.
bool HasFreeBatch(const std::string& model);

// 0: not even one sample fits.
Result<std::int64_t> FindLargestBatch(const ModelFlags& model, const OutputFlags& output,
                                      const estimate::Options& options);

}  // namespace ebbtide::cli
