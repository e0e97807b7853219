// CARMA (Yousefzadeh-Asl-Miandoab et al. 2025): tasks in the order of their arrival, each to the GPU with the most free
// memory (MAGM) of those that have what the task needs and 2 GiB more, and whose multiprocessors are less than 80 %
// active; after a start a GPU is left alone until monitoring, over 30 s, shows the new task. Its thresholds of
// occupancy and of memory traffic, which must hold beside the 80 %, are taken to hold. The need is the true one, as its
// oracle has it: the best that its estimators can do. A task that is out of memory runs again on a GPU of its own.
#include "cluster/policies/policy.h"

namespace ebbtide::cluster {
namespace {

constexpr Bytes kSpare = 2 * kGiB;
constexpr double kMostBusy = 0.8;
constexpr double kWindow = 30;

class Carma : public Policy {
 public:
  std::optional<Choice> OnNode(const State& state, const NodeState& node, std::size_t kind) override {
    return BestOf(state, node, kind, [&](const Gpu& gpu) -> std::optional<double> {
      if (gpu.busy >= kMostBusy) return std::nullopt;
      if (state.kind(kind).by_share()) {
        if (gpu.milli_free < state.kind(kind).gpu_milli) return std::nullopt;
        return static_cast<double>(gpu.milli_free);
      }
      const Bytes free = state.memory(gpu) - gpu.taken;
      // A task that leaves less than the spare room of a whole GPU would never run: it may have an empty one.
      const bool enough =
          gpu.empty() ? state.on(kind, gpu).memory <= free : state.on(kind, gpu).memory + kSpare <= free;
      return enough ? std::optional(static_cast<double>(free)) : std::nullopt;
    });
  }
  Bytes Reserve(const State& state, const Gpu& gpu, std::size_t kind) const override {
    return state.on(kind, gpu).memory;
  }
  bool InOrder() const override { return true; }
  double SettleSeconds() const override { return kWindow; }
};

}  // namespace

std::unique_ptr<Policy> MakeCarma(const Hardware&, const Workload&) { return std::make_unique<Carma>(); }

}  // namespace ebbtide::cluster
