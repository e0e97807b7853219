// MPS, or time slices, behind a scheduler that goes by what users declare: the first GPU with as much left. The
// declared memory is a limit that holds (CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, HAMi's library): a job that needs more has
// an error. Where nothing is declared, a job gets half of a GPU, as with NVIDIA's device plugin and two replicas.
#include "cluster/policies/policy.h"

namespace ebbtide::cluster {
namespace {

class Mps : public Policy {
 public:
  std::optional<Choice> OnNode(const State& state, const NodeState& node, std::size_t kind) override {
    return BestOf(state, node, kind, [&](const Gpu& gpu) -> std::optional<double> {
      if (state.kind(kind).by_share()) {
        return gpu.milli_free >= state.kind(kind).gpu_milli ? std::optional(0.0) : std::nullopt;
      }
      return gpu.reserved + Reserve(state, gpu, kind) <= state.memory(gpu) ? std::optional(0.0) : std::nullopt;
    });
  }
  Bytes Reserve(const State& state, const Gpu& gpu, std::size_t kind) const override {
    const Bytes declared = state.kind(kind).declared;
    return declared > 0 ? declared : state.memory(gpu) / 2;
  }
  std::optional<Bytes> Limit(const State& state, const Gpu& gpu, std::size_t kind) const override {
    return Reserve(state, gpu, kind);
  }
};

}  // namespace

std::unique_ptr<Policy> MakeMps(const Hardware&, const Workload&) { return std::make_unique<Mps>(); }

}  // namespace ebbtide::cluster
