// One MODEL at one batch after another: `fit`, and `estimate` where a job does not fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/common_flags.h"
#include "estimate/estimate.h"
#include "model/rebatch.h"

namespace ebbtide::cli {

// Graphs of a MODEL at any batch. Built-in models and .onnx files are made anew for each; a SCRIPT.py:function is
// captured at three batches, a graph file has captures at other batches beside it, and those tell the rest.
class AnyBatchModel {
 public:
  // `others`: files with captures of the same step at one other batch, or at several, which then have to agree.
  static Result<AnyBatchModel> Open(const ModelFlags& model, const std::vector<std::string>& others,
                                    const OutputFlags& output);

  // May be called from several threads.
  Result<TrainingGraph> At(std::int64_t batch) const;
  // Forward and backward passes that At's steps have, each of a batch.
  std::int64_t passes() const;
  // Of the first capture; nullopt where nothing was captured.
  std::optional<std::int64_t> captured_batch() const;

 private:
  AnyBatchModel(const ModelFlags& model, const OutputFlags& output) : model_(model), output_(output) {}
  Status Combine(const std::vector<std::string>& files);

  ModelFlags model_;
  OutputFlags output_;
  std::optional<model::AnyBatch> captured_;
};

// Whether Open would have something to go by.
bool HasFreeBatch(const ModelFlags& model, const std::vector<std::string>& others);

// 0: not even one sample fits.
Result<std::int64_t> FindLargestBatch(const AnyBatchModel& model, const estimate::Options& options);

}  // namespace ebbtide::cli
