// The pipeline as the simulator drives it.
#pragma once

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "share/gate.h"
#include "share/job.h"

namespace ebbtide::share {

class PipelineGate : public Gate {
 public:
  // `lanes`: the number of each job's lane. Lanes of one job are laid first, so that what is left over is for those
  // that are shared; of a lane the tallest job first.
  static Result<PipelineGate> Make(const std::vector<Job>& jobs, const std::vector<int>& lanes,
                                   const PipelineOptions& options) {
    PipelineGate gate(options);
    std::vector<std::size_t> order(jobs.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto key = [&](std::size_t i) {
      return std::tuple(std::ranges::count(lanes, lanes[i]), lanes[i], -jobs[i].placement.height, i);
    };
    std::ranges::sort(order, {}, key);
    gate.ids_.resize(jobs.size());
    for (const std::size_t i : order) {
      EBB_ASSIGN_OR_RETURN(gate.ids_[i], gate.pipeline_.Join(ShapeOf(jobs[i], lanes[i])));
    }
    return gate;
  }

  std::optional<Nanos> TryStart(std::size_t job, int group, double) override {
    if (!pipeline_.TryStart(ids_[job], group)) return std::nullopt;
    return Nanos{0};
  }
  void Finished(std::size_t job, int group, double) override { pipeline_.Finished(ids_[job], group); }

  const Pipeline& pipeline() const { return pipeline_; }
  JobId id(std::size_t job) const { return ids_[job]; }

 private:
  explicit PipelineGate(const PipelineOptions& options) : pipeline_(options) {}
  Pipeline pipeline_;
  std::vector<JobId> ids_;
};

}  // namespace ebbtide::share
