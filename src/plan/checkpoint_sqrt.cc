// Checkpointing (Chen et al., 2016): the forward pass in about sqrt(n) segments; what crosses from one to another is
// kept, the rest of a segment is made again when backward comes to it.
#include <cmath>

#include "plan/driver.h"
#include "plan/policy.h"

namespace ebbtide::plan {
namespace {

class Segments : public Driver {
 public:
  Segments(const Problem& problem, std::vector<bool> recomputed)
      : Driver(problem, /*record=*/true), recomputed_(std::move(recomputed)) {}

 private:
  bool MakeRoom(Bytes /*room*/) override { return true; }
  void AfterOp(Index op) override {
    if (workload_.in_backward[op]) return;
    for (const Index s : workload_.needs[op]) Consider(s);
    for (const Index s : workload_.births[op]) Consider(s);
  }
  void Consider(Index s) {
    if (!recomputed_[s] || IsLocked(s) || !machine_.OnDevice(s)) return;
    const Index next = NextUse(s);
    if (next != sim::kNone && workload_.in_backward[next]) Forget(s);
  }
  std::vector<bool> recomputed_;
};

}  // namespace

PolicyResult RunCheckpointSqrt(const PolicyInput& input) {
  const sim::Workload& workload = *input.problem.workload;
  if (!input.problem.limits.may_recompute) return {};
  // Layers: forward ops that make something.
  std::vector<Index> layer(workload.ops(), 0);
  Index layers = 0;
  for (Index op = 0; op < workload.ops() && !workload.in_backward[op]; ++op) {
    layer[op] = layers;
    if (!workload.births[op].empty()) ++layers;
  }
  const auto length = std::max<Index>(1, static_cast<Index>(std::lround(std::sqrt(static_cast<double>(layers)))));
  const auto segment = [&](Index op) { return layer[op] / length; };
  std::vector<bool> recomputed(workload.storages(), false);
  for (Index s = 0; s < workload.storages(); ++s) {
    const Index maker = workload.born[s];
    if (maker == sim::kNone || workload.in_backward[maker] || workload.recipe[s].empty()) continue;
    bool crosses = segment(maker) + 1 == (layers + length - 1) / length;  // backward begins with the last segment
    for (const Index use : workload.uses[s]) crosses |= !workload.in_backward[use] && segment(use) != segment(maker);
    recomputed[s] = !crosses;
  }
  Segments segments(input.problem, std::move(recomputed));
  if (!segments.Run() || segments.peak() > input.problem.limits.budget) return {};
  return Found(segments.TakeSchedule());
}

}  // namespace ebbtide::plan
