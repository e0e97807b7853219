// SuperNeurons (Wang et al., 2018): outputs of cheap layers (pooling, activation, normalization, dropout) are made
// again in backward; outputs of the others are a cache that spills to the host, least recently used first. Their copies
// begin as soon as they are made, beside the layers that follow, so that what spills has mostly been copied by then.
#include <algorithm>
#include <array>
#include <string_view>

#include "device/op_time.h"
#include "plan/policies/policy.h"
#include "plan/search/driver.h"

namespace ebbtide::plan {
namespace {

// Layers that the paper recomputes. Sums where branches join are not among them.
bool IsCheap(const std::string& kind) {
  const OpFamily family = FamilyOf(kind);
  if (family == OpFamily::kPooling || family == OpFamily::kNormalization) return true;
  constexpr std::array<std::string_view, 10> kActivations{
      "relu", "gelu", "tanh", "sigmoid", "silu", "hardtanh", "hardswish", "leaky_relu", "elu", "native_dropout"};
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
    for (const StorageId s : workload_.storage_ids()) {
      const OpId maker = workload_.born[s];
      if (!maker.valid() || workload_.in_backward[maker]) continue;
      is_cheap_[s] = IsCheap(input.graph.op(maker).kind) && CanRemake(s);
      may_spill_[s] = !is_cheap_[s] && problem_.limits.may_swap;
    }
  }

 private:
  struct Away {
    OpId next_use;
    StorageId storage;

    // The soonest needed first; what no op needs is last.
    auto Key() const { return std::pair(NoneLast(next_use), storage); }
  };

  void BecomeIdle(StorageId s) override {
    last_used_[s] = machine_.steps();
    if (may_spill_[s] && workload_.bytes[s] > 0) cache_.push_back(s);
  }
  void EndIdle(StorageId s) override { std::erase(cache_, s); }
  void ComeBack(StorageId s) override {
    std::erase_if(away_, [&](const auto& entry) { return entry.storage == s; });
    if (is_cheap_[s]) remade_.push_back(s), remade_bytes_ += workload_.bytes[s];
  }

  void BeforeOp(OpId op) override {
    if (!workload_.in_backward[op] || away_.empty()) return;
    // One copy ahead of backward, where there is room.
    const StorageId s = std::ranges::min_element(away_, {}, &Away::Key)->storage;
    if (machine_.used() + workload_.bytes[s] + problem_.needed[op] <= problem_.limits.budget) BringBack(s);
  }
  void AfterOp(OpId op) override {
    for (const StorageId s : workload_.needs[op]) Consider(s), CopyEarly(s);
    for (const StorageId s : workload_.births[op]) Consider(s), CopyEarly(s);
    // A segment that was made again is kept, unless it would exceed the largest layer.
    if (remade_bytes_ <= largest_layer_) return;
    for (const StorageId s : remade_) {
      if (machine_.OnDevice(s) && !IsLocked(s) && NextUse(s).valid() && !machine_.OnHost(s)) Forget(s);
    }
    remade_.clear();
    remade_bytes_ = 0;
  }
  void Consider(StorageId s) {
    if (!is_cheap_[s] || IsLocked(s) || !machine_.OnDevice(s) || machine_.OnHost(s)) return;
    const OpId next = NextUse(s);
    if (next.valid() && workload_.in_backward[next] && !workload_.in_backward[next_op_]) Forget(s);
  }

  // The contents that forward leaves behind go to the host at once. The memory is kept until others need it.
  void CopyEarly(StorageId s) {
    if (workload_.in_backward[next_op_] || !may_spill_[s] || workload_.bytes[s] == 0) return;
    if (!machine_.OnDevice(s) || machine_.OnHost(s) || !NextUse(s).valid()) return;
    if (machine_.host_used() + workload_.bytes[s] <= problem_.limits.host) machine_.BeginCopyOut(s);
  }

  bool MakeRoom(Bytes room) override {
    while (machine_.used() + room > problem_.limits.budget) {
      StorageId oldest;
      for (const StorageId s : cache_) {
        const bool settled = machine_.Settled(s);
        if (settled && (!oldest.valid() || std::pair(last_used_[s], s) < std::pair(last_used_[oldest], oldest)))
          oldest = s;
      }
      if (!oldest.valid()) return false;
      const Bytes more_on_host = machine_.OnHost(oldest) ? 0 : workload_.bytes[oldest];
      if (machine_.host_used() + more_on_host > problem_.limits.host) return false;
      const OpId next = NextUse(oldest);
      LeaveForHost(oldest);
      away_.push_back({next, oldest});
    }
    return true;
  }

  IdVector<StorageId, bool> is_cheap_, may_spill_;
  IdVector<StorageId, std::size_t> last_used_;  // steps run by then
  std::vector<StorageId> cache_;
  std::vector<StorageId> remade_;
  Bytes remade_bytes_ = 0;
  Bytes largest_layer_ = 0;
  std::vector<Away> away_;
};

}  // namespace

PolicyResult RunSuperNeurons(const PolicyInput& input) {
  if (input.problem.workload->ops() == 0 || !input.problem.limits.may_recompute) return {};
  SuperNeurons driver(input);
  if (!driver.Run()) return {};
  return Found(driver.TakeSchedule());
}

}  // namespace ebbtide::plan
