// Ours: what a job is predicted to take, with the margin of `ebbtide estimate`, must be left, so that none runs out of
// memory; of the GPUs where that is so, the one that gets the most done with the job beside those it runs, by the model
// of rates.h. The first job that waits for memory has the GPU kept for it on which there will be enough soonest, so
// that none starves. Which job is the first, and what a GPU must gain by another, is not settled here: there is a way
// for each answer, and look_ahead.cc takes the best at each moment.
// Jobs that ask for shares of GPUs have no model to go by: they are placed as fgd places them.
#include "cluster/policies/policy.h"

namespace ebbtide::cluster {
namespace {

// What a GPU must get done more, in GPUs, for a job to be put beside others: anything at all, up to as much as half of
// an empty one.
constexpr double kGains[] = {0, 0.25, 0.5};
// Long jobs may go first, as short ones fill what they leave: a job is taken to have come so many times its work
// earlier: as long as it takes, not at all, or so that hardly anything else counts. One that comes later by that many
// times the longest work overtakes nobody.
constexpr double kHeadStarts[] = {1, 0, 4};

class Way : public Policy {
 public:
  Way(double gain, double head_start) : gain_(gain), head_start_(head_start) {}

  std::optional<Choice> OnNode(const State& state, const NodeState& node, std::size_t kind) override {
    return BestOf(state, node, kind, [&](const Gpu& gpu) { return Score(state, gpu, kind); });
  }
  Bytes Reserve(const State& state, const Gpu& gpu, std::size_t kind) const override {
    // One whose margin exceeds the GPU, though it should fit, runs alone.
    return std::min(state.on(kind, gpu).reserve, state.memory(gpu));
  }
  bool HoldsForFirst() const override { return true; }
  bool RefusesTooLarge() const override { return true; }
  double Rank(const Job& job) const override { return job.arrival - head_start_ * job.expected(); }

 private:
  std::optional<double> Score(const State& state, const Gpu& gpu, std::size_t kind) const {
    if (state.memory(gpu) - gpu.reserved < Reserve(state, gpu, kind)) return std::nullopt;
    if (state.on(kind, gpu).estimate > state.memory(gpu)) return std::nullopt;
    if (gpu.empty()) return 1;
    const double before = state.MixOn(gpu).sum;
    const double gain = state.MixOn(gpu, kind).sum - before;
    return gain > gain_ ? std::optional(gain) : std::nullopt;
  }

  double gain_, head_start_;
};

class Ebbtide : public Way {
 public:
  Ebbtide(const Hardware& hardware, const Workload& workload)
      : Way(kGains[0], kHeadStarts[0]), by_share_(MakeFgd(hardware, workload)) {
    for (const double head_start : kHeadStarts) {
      for (const double gain : kGains) ways_.push_back(std::make_unique<Way>(gain, head_start));
    }
    for (const Kind& kind : workload.kinds) any_by_share_ |= kind.by_share();
  }

  std::optional<Choice> OnNode(const State& state, const NodeState& node, std::size_t kind) override {
    if (state.kind(kind).by_share()) return by_share_->OnNode(state, node, kind);
    return Way::OnNode(state, node, kind);
  }
  std::vector<Policy*> Ways() override {
    std::vector<Policy*> out;
    if (any_by_share_) return out;
    for (const auto& way : ways_) out.push_back(way.get());
    return out;
  }

 private:
  std::vector<std::unique_ptr<Way>> ways_;
  std::unique_ptr<Policy> by_share_;
  bool any_by_share_ = false;
};

}  // namespace

std::unique_ptr<Policy> MakeEbbtide(const Hardware& hardware, const Workload& workload) {
  return std::make_unique<Ebbtide>(hardware, workload);
}

}  // namespace ebbtide::cluster
