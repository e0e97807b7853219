// One job to a GPU, as most clusters have it: the first GPU that is free.
#include "cluster/policies/policy.h"

namespace ebbtide::cluster {
namespace {

class Exclusive : public Policy {
 public:
  std::optional<Choice> OnNode(const State& state, const NodeState& node, std::size_t kind) override {
    return BestOf(state, node, kind, [](const Gpu& gpu) { return gpu.empty() ? std::optional(0.0) : std::nullopt; });
  }
  Bytes Reserve(const State& state, const Gpu& gpu, std::size_t) const override { return state.memory(gpu); }
};

}  // namespace

std::unique_ptr<Policy> MakeExclusive(const Hardware&, const Workload&) { return std::make_unique<Exclusive>(); }

}  // namespace ebbtide::cluster
