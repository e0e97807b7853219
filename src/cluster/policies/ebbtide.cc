// Ours: what a job is predicted to take, with the margin of `ebbtide estimate`, must be left, so that none runs out of
// memory; of the GPUs where that is so, the one that gets the most done with the job beside those it runs, by the model
// of rates.h. A GPU that would get hardly more done is left alone: the job would slow down others for nothing. The
// oldest job that waits for memory has the GPU kept for it on which there will be enough soonest, so that none starves.
// Jobs that ask for shares of GPUs have no model to go by: they are placed as fgd places them.
#include "cluster/policies/policy.h"

namespace ebbtide::cluster {
namespace {

// What a GPU must get done more, in GPUs, for a job to be put beside others.
constexpr double kLeastGain = 0.05;
// Long jobs go first, as short ones fill what they leave: a job is taken to have come so many times its work earlier.
// One that comes later by that many times the longest work overtakes nobody.
constexpr double kHeadStart = 1;
// Of GPUs that gain alike, the one with less memory left: so much of a GPU's work is all of its memory worth.
constexpr double kWorthOfMemory = 0.01;

class Ebbtide : public Policy {
 public:
  Ebbtide(const Hardware& hardware, const Workload& workload) : by_share_(MakeFgd(hardware, workload)) {}

  std::optional<Choice> OnNode(const State& state, const NodeState& node, std::size_t kind) override {
    if (state.kind(kind).by_share()) return by_share_->OnNode(state, node, kind);
    return BestOf(state, node, kind, [&](const Gpu& gpu) { return Score(state, gpu, kind); });
  }
  Bytes Reserve(const State& state, const Gpu& gpu, std::size_t kind) const override {
    // One whose margin exceeds the GPU, though it should fit, runs alone.
    return std::min(state.on(kind, gpu).reserve, state.memory(gpu));
  }
  bool HoldsForFirst() const override { return true; }
  bool RefusesTooLarge() const override { return true; }
  double Rank(const Job& job) const override { return job.arrival - kHeadStart * job.work; }

 private:
  std::optional<double> Score(const State& state, const Gpu& gpu, std::size_t kind) const {
    const Bytes left = state.memory(gpu) - gpu.reserved - Reserve(state, gpu, kind);
    if (left < 0 || state.on(kind, gpu).estimate > state.memory(gpu)) return std::nullopt;
    const double room = static_cast<double>(left) / static_cast<double>(std::max<Bytes>(state.memory(gpu), 1));
    if (gpu.empty()) return 1 - kWorthOfMemory * room;
    std::vector<GpuUser> users = UsersOf(state, gpu);
    double before = 0, after = 0;
    for (const double rate : Rates(users)) before += rate;
    const OnGpu& on = state.on(kind, gpu);
    users.push_back({.kernels = on.kernels, .gpu_share = on.gpu_share});
    for (const double rate : Rates(users)) after += rate;
    const double gain = after - before;
    return gain >= kLeastGain ? std::optional(gain - kWorthOfMemory * room) : std::nullopt;
  }

  std::unique_ptr<Policy> by_share_;
};

}  // namespace

std::unique_ptr<Policy> MakeEbbtide(const Hardware& hardware, const Workload& workload) {
  return std::make_unique<Ebbtide>(hardware, workload);
}

}  // namespace ebbtide::cluster
