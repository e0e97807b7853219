// Whether trainings fit on one GPU together, and how fast they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/link.h"
#include "device/profile.h"
#include "jobs/context.h"
#include "jobs/model.h"
#include "share/baselines/baseline.h"
#include "share/scheduler/common_batch.h"

namespace ebbtide::jobs {

struct ShareJobRequest {
  ModelRequest model;  // at the batch of its options; with `max_batch`, whatever that is
  // The batch was chosen for this job: a graph that has its own is refused then.
  bool batch_given = false;
  std::int64_t weight = 1;
  int priority = 0;
};

struct ShareRequest {
  std::vector<ShareJobRequest> jobs;
  DeviceProfile gpu;
  std::optional<Link> link;       // in place of the GPU's
  std::optional<Bytes> capacity;  // in place of the GPU's memory beside one context
  int groups = 16;                // of an iteration, at most
  bool may_plan = true;           // jobs may run under plans
  bool max_batch = false;         // finds the largest common batch
  bool compare = false;           // also other ways of sharing a GPU
};

struct ShareResult {
  std::string gpu;
  share::Mix mix;
  std::optional<share::CommonBatch> common;     // with `max_batch`; its mix is `mix`
  std::vector<share::BaselineResult> compared;  // with `compare`
};

// Jobs of the same model name, or graph, are of the same options: they are loaded once. That they do not fit is an
// answer, in the mix.
Result<ShareResult> Share(const ShareRequest& request, const JobContext& context);

}  // namespace ebbtide::jobs
