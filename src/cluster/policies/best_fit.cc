// Best fit: of the GPUs with enough left, the one with the least.
#include "cluster/policies/policy.h"

namespace ebbtide::cluster {
namespace {

class BestFit : public Policy {
 public:
  std::optional<Choice> OnNode(const State& state, const NodeState& node, std::size_t kind) override {
    return BestOf(state, node, kind, [&](const Gpu& gpu) -> std::optional<double> {
      const std::int64_t left = gpu.milli_free - MilliOf(state, gpu, kind);
      return left >= 0 ? std::optional(-static_cast<double>(left)) : std::nullopt;
    });
  }
  Bytes Reserve(const State& state, const Gpu& gpu, std::size_t kind) const override {
    return state.on(kind, gpu).reserve;
  }
  bool RefusesTooLarge() const override { return true; }
};

}  // namespace

std::unique_ptr<Policy> MakeBestFit(const Hardware&, const Workload&) { return std::make_unique<BestFit>(); }

}  // namespace ebbtide::cluster
