// The MODEL of a Request, whatever it names, as a graph.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jobs/context.h"
#include "model/model.h"
#include "model/rebatch.h"
#include "parallel/layout.h"

namespace ebbtide::jobs {

struct ModelRequest {
  std::string model;  // a name or a path, as the command line takes it; with `graph`, what results call it
  model::ModelOptions options;
  // The options that were chosen, by their flags ("--widths"): one that this kind of MODEL has no use for is refused,
  // never passed over.
  std::set<std::string> given;
  std::vector<std::string> other_batches;      // with a graph file: captures of the same step at other batches
  std::shared_ptr<const TrainingGraph> graph;  // in place of a file: a graph that is in memory already
  std::vector<std::shared_ptr<const TrainingGraph>> other_graphs;  // in place of `other_batches`, beside `graph`

  parallel::Layout layout;  // of several GPUs: the graph is then that of one rank

  bool Gave(const std::string& flag) const { return given.contains(flag); }
  bool HasOthers() const { return !other_batches.empty() || !other_graphs.empty(); }
};

// What kind of MODEL it is.
model::ModelSource SourceOf(const ModelRequest& request);

// Refuses a request that names no MODEL.
Status CheckNamed(const ModelRequest& request);

// Refuses the name of an optimizer that is not known.
Status CheckOptimizer(const std::string& name);

// Refuses also options that contradict each other or that this kind of MODEL has no use for.
Status CheckModel(const ModelRequest& request);

// The graph; captured first where MODEL is a SCRIPT.py:function. One that is in memory already is not copied. Of a
// pipeline that of the rank which holds most.
Result<std::shared_ptr<const TrainingGraph>> LoadModel(const ModelRequest& request, const JobContext& context);

// Of a pipeline: the graph of each of its ranks, in order. Otherwise of one.
Result<std::vector<std::shared_ptr<const TrainingGraph>>> LoadStages(const ModelRequest& request,
                                                                     const JobContext& context);

// Graphs of a MODEL at any batch. What can be made anew is made anew for each; a SCRIPT.py:function is captured at
// three batches, a graph file has captures at other batches beside it, and those tell the rest.
class AnyBatchModel {
 public:
  AnyBatchModel() = default;  // of no MODEL; Open makes one of use
  static Result<AnyBatchModel> Open(const ModelRequest& request, const JobContext& context);
  // Whether Open would have something to go by.
  static bool IsPossible(const ModelRequest& request);

  // May be called from several threads.
  // With a pipeline, of the rank at that place in it.
  Result<TrainingGraph> At(std::int64_t batch, std::int64_t stage = 0) const;
  // Ranks of a pipeline that differ; 1 without one.
  std::int64_t stages() const { return request_.layout.pp; }
  // Forward and backward passes that At's steps have, each of a batch.
  std::int64_t passes() const;
  // Of the first capture; nullopt where nothing was captured.
  std::optional<std::int64_t> captured_batch() const;

 private:
  AnyBatchModel(ModelRequest request, const JobContext& context) : request_(std::move(request)), context_(context) {}
  Status Combine(const std::vector<TrainingGraph>& graphs, const std::vector<std::string>& names);

  ModelRequest request_;
  JobContext context_;
  std::optional<model::AnyBatch> captured_;
};

}  // namespace ebbtide::jobs
