// Checkpointing (Chen et al., 2016): the forward pass in about sqrt(n) segments; what crosses from one to another is
// kept, the rest of a segment is made again when backward comes to it.
#include <cmath>

#include "plan/policies/policy.h"
#include "plan/search/driver.h"

namespace ebbtide::plan {
namespace {

class Segments : public Driver {
 public:
  Segments(const Problem& problem, IdVector<StorageId, bool> recomputed)
      : Driver(problem, /*record=*/true), recomputed_(std::move(recomputed)) {}

 private:
  bool MakeRoom(Bytes /*room*/) override { return true; }
  void AfterOp(OpId op) override {
    if (workload_.in_backward[op]) return;
    for (const StorageId s : workload_.needs[op]) Consider(s);
    for (const StorageId s : workload_.births[op]) Consider(s);
  }
  void Consider(StorageId s) {
    if (!recomputed_[s] || IsLocked(s) || !machine_.OnDevice(s)) return;
    const OpId next = NextUse(s);
    if (next.valid() && workload_.in_backward[next]) Forget(s);
  }
  IdVector<StorageId, bool> recomputed_;
};

}  // namespace

PolicyResult RunCheckpointSqrt(const PolicyInput& input) {
  const sim::Workload& workload = *input.problem.workload;
  if (!input.problem.limits.may_recompute) return {};
  // Layers: forward ops that make something.
  IdVector<OpId, std::size_t> layer(workload.ops(), 0);
  std::size_t layers = 0;
  for (const OpId op : workload.op_ids()) {
    if (workload.in_backward[op]) break;
    layer[op] = layers;
    if (!workload.births[op].empty()) ++layers;
  }
  const auto length =
      std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(layers)))));
  const auto segment = [&](OpId op) { return layer[op] / length; };
  IdVector<StorageId, bool> recomputed(workload.storages(), false);
  for (const StorageId s : workload.storage_ids()) {
    const OpId maker = workload.born[s];
    if (!maker.valid() || workload.in_backward[maker] || workload.recipe[s].empty()) continue;
    bool crosses = segment(maker) + 1 == (layers + length - 1) / length;  // backward begins with the last segment
    for (const OpId use : workload.uses[s]) crosses |= !workload.in_backward[use] && segment(use) != segment(maker);
    recomputed[s] = !crosses;
  }
  Segments segments(input.problem, std::move(recomputed));
  if (!segments.Run() || segments.peak() > input.problem.limits.budget) return {};
  return Found(segments.TakeSchedule());
}

}  // namespace ebbtide::plan
