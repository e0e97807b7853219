// A SCRIPT.py:function as graph files, with CUDA's kernels where the verb is about a GPU.
#pragma once

#include <array>
#include <string>

#include "base/result.h"
#include "cli/common_flags.h"

namespace ebbtide::cli {

// Captures the step that the flags describe into `file`, a .json. An error with an empty message was already told to
// the user by the program we started.
Status CaptureModel(const ModelFlags& model, const OutputFlags& output, const std::string& file);

// At three batches, two of which tell all others while the third shows whether they do; the three files.
Result<std::array<std::string, 3>> CaptureBatches(const ModelFlags& model, const OutputFlags& output,
                                                  const std::string& file);

}  // namespace ebbtide::cli
