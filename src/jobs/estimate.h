// How much GPU memory a training takes: the question of `ebbtide estimate`, and its answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/profile.h"
#include "estimate/estimate.h"
#include "estimate/safety.h"
#include "graph/graph.h"
#include "jobs/model.h"
#include "jobs/training.h"

namespace ebbtide::jobs {

struct EstimateRequest {
  ModelRequest model;  // of CUDA's kernels: options.device is model::Device::kCuda
  TrainingRequest training = {};
  std::string gpu = "a100-40gb";              // a name, or the path of a profile
  std::optional<DeviceProfile> profile = {};  // in place of `gpu`
};

// A part of the total when most is allocated: names of torch's MemTracker, and workspace, fragmentation, reservation,
// context.
struct Contribution {
  std::string name;
  Bytes bytes = 0;
};

// A request that lives when most is allocated.
struct TensorAtPeak {
  Bytes bytes = 0;
  std::string category;
  std::string name;  // of a parameter, buffer or input; may be empty
  std::string made_by, layer;
  std::string dtype;
  Dims shape;  // of the first tensor on the storage; empty for scratch memory
};

// What one rank takes.
struct RankEstimate {
  std::int64_t stage = 0;  // its place in a pipeline
  Bytes peak_reserved = 0, peak_allocated = 0, total = 0;
};

struct EstimateResult {
  std::string model;  // MODEL as it was asked for
  std::shared_ptr<const TrainingGraph> graph;
  std::string framework;        // whose runtime, as "pytorch-2.8"
  estimate::Options options;    // what it was made with, the GPU among it
  estimate::Estimate estimate;  // with its timeline
  estimate::SafeFigure safe;
  std::vector<Contribution> breakdown;             // the bytes sum up to the total
  std::vector<Contribution> largest_first;         // the same by size
  std::vector<TensorAtPeak> largest_at_peak;       // ten at most, largest first
  Bytes reserved_before_training = 0;              // by the model, and by state that its optimizer makes early
  Bytes lacks = 0;                                 // what the device would have to have more; 0: it fits
  std::optional<std::int64_t> largest_batch;       // of a job that does not fit, where it can be told; 0: none fits
  std::optional<std::int64_t> largest_safe_batch;  // whose safe figure fits; beside largest_batch
  // Of a mixture of experts: the same where the router sends all tokens to as few experts as there can be. The estimate
  // itself takes it to be fair.
  std::optional<estimate::Estimate> worst_routing;
  std::vector<std::string> not_counted;  // what no rule is there for: "scratch of aten::sort"
  std::vector<std::string> notes;        // what the figures do not cover
  parallel::Layout layout;               // of several GPUs: all figures are those of the rank that takes most
  std::vector<RankEstimate> ranks;       // of several GPUs, by rank; those of one stage are alike
  std::vector<EstimateResult> stages;  // of a pipeline, each as if it were the only one; without their largest batches
};

Result<EstimateResult> Estimate(const EstimateRequest& request, const JobContext& context);

// The names of the breakdown.
const char* CategoryName(estimate::Category category);

}  // namespace ebbtide::jobs
