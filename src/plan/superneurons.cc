// SuperNeurons (Wang et al., 2018): outputs of cheap layers (pooling, activation, normalization, dropout) are made again
// in backward; outputs of the others are a cache that spills to the host, least recently used first.
#include <algorithm>
#include <array>
#include <string_view>

#include "device/op_time.h"
#include "plan/driver.h"
#include "plan/policy.h"

namespace ebbtide::plan {
namespace {

// Layers that the paper recomputes. Sums where branches join are not among them.
bool IsCheap(const std::string& kind) {
  const OpFamily family = FamilyOf(kind);
  if (family == OpFamily::kPooling || family == OpFamily::kNormalization) return true;
  constexpr std::array<std::string_view, 10> kActivations{"relu", "gelu", "tanh", "sigmoid", "silu", "hardtanh", "hardswish", "leaky_relu", "elu", "native_dropout"};
  return std::ranges::any_of(kActivations, [&](std::string_view name) { return kind.starts_with(name); });
}

class SuperNeurons : public Driver {
 public:
  explicit SuperNeurons(const PolicyInput& input)
      : Driver(input.problem, /*record=*/true),
        is_cheap_(workload_.storages(), false),
        may_spill_(workload_.storages(), false),
        last_used_(workload_.storages(), 0) {
    largest_layer_ = *std::ranges::max_element(problem_.needed);
    for (Index s = 0; s < workload_.storages(); ++s) {
      const Index maker = workload_.born[s];
      if (maker == sim::kNone || workload_.in_backward[maker]) continue;
      is_cheap_[s] = IsCheap(input.graph.ops[maker].kind) && CanRemake(s);
      may_spill_[s] = !is_cheap_[s] && problem_.limits.may_swap;
    }
  }

 private:
  void BecomeIdle(Index s) override {
    last_used_[s] = machine_.steps();
    if (may_spill_[s] && workload_.bytes[s] > 0) cache_.push_back(s);
  }
  void EndIdle(Index s) override { std::erase(cache_, s); }
  void ComeBack(Index s) override {
    std::erase_if(away_, [&](const auto& entry) { return entry.second == s; });
    if (is_cheap_[s]) remade_.push_back(s), remade_bytes_ += workload_.bytes[s];
  }

  void BeforeOp(Index op) override {
    if (!workload_.in_backward[op] || away_.empty()) return;
    // One copy ahead of backward, where there is room.
    const auto [next, s] = *std::ranges::min_element(away_);
    if (machine_.used() + workload_.bytes[s] + problem_.needed[op] <= problem_.limits.budget) BringBack(s);
  }
  void AfterOp(Index op) override {
    for (const Index s : workload_.needs[op]) Consider(s);
    for (const Index s : workload_.births[op]) Consider(s);
    // A segment that was made again is kept, unless it would exceed the largest layer.
    if (remade_bytes_ <= largest_layer_) return;
    for (const Index s : remade_) {
      if (machine_.OnDevice(s) && !IsLocked(s) && NextUse(s) != sim::kNone && !machine_.OnHost(s)) Forget(s);
    }
    remade_.clear();
    remade_bytes_ = 0;
  }
  void Consider(Index s) {
    if (!is_cheap_[s] || IsLocked(s) || !machine_.OnDevice(s) || machine_.OnHost(s)) return;
    const Index next = NextUse(s);
    if (next != sim::kNone && workload_.in_backward[next] && !workload_.in_backward[next_op_]) Forget(s);
  }

  bool MakeRoom(Bytes room) override {
    while (machine_.used() + room > problem_.limits.budget) {
      Index oldest = sim::kNone;
      for (const Index s : cache_) {
        const bool settled = machine_.Settled(s);
        if (settled && (oldest == sim::kNone || std::pair(last_used_[s], s) < std::pair(last_used_[oldest], oldest))) oldest = s;
      }
      if (oldest == sim::kNone) return false;
      if (machine_.host_used() + workload_.bytes[oldest] > problem_.limits.host) return false;
      const Index next = NextUse(oldest);
      LeaveForHost(oldest);
      away_.emplace_back(next, oldest);
    }
    return true;
  }

  std::vector<bool> is_cheap_, may_spill_;
  std::vector<Index> last_used_;
  std::vector<Index> cache_;
  std::vector<Index> remade_;
  Bytes remade_bytes_ = 0;
  Bytes largest_layer_ = 0;
  std::vector<std::pair<Index, Index>> away_;  // (next use, storage)
};

}  // namespace

PolicyResult RunSuperNeurons(const PolicyInput& input) {
  if (input.problem.workload->ops() == 0 || !input.problem.limits.may_recompute) return {};
  SuperNeurons driver(input);
  if (!driver.Run()) return {};
  return Found(driver.TakeSchedule());
}

}  // namespace ebbtide::plan
