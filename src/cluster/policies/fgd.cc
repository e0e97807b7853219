// Fragmentation gradient descent (Weng et al., USENIX ATC 2023), as schedulers of shared GPUs on Kubernetes simulate
// it. What is free of a node is a fragment for a kind of job that cannot run there: all of it where the node lacks
// cores or has too few GPUs with enough left, or the kind asks for no GPU, else what is left of the GPUs that have too
// little. The mean over the kinds of the trace, by how often they come, is the node's fragmentation; a job goes where
// it grows least. By shares of GPUs where the trace has them, else by the share of memory that a job is predicted to
// take.
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "cluster/policies/policy.h"

namespace ebbtide::cluster {
namespace {

// The kinds that are looked at are the most frequent ones, which make up so much of all jobs.
constexpr double kOfAllJobs = 0.95;

// A score as Kubernetes has them, a whole number from 0 to 100: what differs by little is alike.
double Whole(double descent) { return std::floor(100 / (1 + std::exp(-descent / kWholeGpu))); }

struct Typical {
  double often = 0;  // 0 to 1
  int gpus = 0;
  std::vector<std::int64_t> milli;  // by type of GPU
  std::int64_t cpu = 0;
};

// A node's rest, as the measure takes it.
struct Rest {
  std::size_t type = 0;
  std::int64_t cpu = 0;
  std::vector<std::int64_t> free;  // of each GPU
};

class Fgd : public Policy {
 public:
  Fgd(const Hardware& hardware, const Workload& workload) {
    const Hardware types{.types = hardware.types, .nodes = {}};
    const State empty(types, workload);
    std::map<std::tuple<int, std::int64_t, std::vector<std::int64_t>>, double> often;
    double all = 0;
    for (const Job& job : workload.jobs) {
      const Kind& kind = workload.kinds[job.kind];
      std::vector<std::int64_t> milli;
      for (std::size_t type = 0; type < hardware.types.size(); ++type) {
        milli.push_back(MilliOf(empty, Gpu{.type = type, .slots = {}}, job.kind));
      }
      often[{kind.gpus, kind.cpu_milli, std::move(milli)}] += 1;
      all += 1;
    }
    for (const auto& [request, count] : often) {
      typical_.push_back({count, std::get<0>(request), std::get<2>(request), std::get<1>(request)});
    }
    std::ranges::stable_sort(typical_, std::greater{}, &Typical::often);
    double sum = 0;
    std::size_t kept = 0;
    while (kept < typical_.size() && sum < kOfAllJobs * all) sum += typical_[kept++].often;
    typical_.resize(kept);
    for (Typical& kind : typical_) kind.often /= sum;
  }

  std::optional<Choice> OnNode(const State& state, const NodeState& node, std::size_t number) override {
    const Kind& kind = state.kind(number);
    if (!state.HostFits(node, kind)) return std::nullopt;
    Rest rest{.type = 0, .cpu = node.cpu_free, .free = {}};
    for (int i = 0; i < node.gpus; ++i) {
      const Gpu& gpu = state.gpus[node.first + static_cast<std::size_t>(i)];
      rest.type = gpu.type;
      rest.free.push_back(gpu.closed || gpu.slots.size() >= kMostOnGpu ? 0 : gpu.milli_free);
    }
    const double before = Fragments(rest);
    rest.cpu -= kind.cpu_milli;
    if (kind.gpus == 0) return Choice{.score = Whole(before - Fragments(rest)), .gpus = {}};
    const std::int64_t milli = MilliOf(state, state.gpus[node.first], number);
    return kind.gpus == 1 ? OneGpu(node, rest, milli, before) : Several(node, rest, milli, kind.gpus, before);
  }
  Bytes Reserve(const State& state, const Gpu& gpu, std::size_t kind) const override {
    return state.on(kind, gpu).reserve;
  }
  bool RefusesTooLarge() const override { return true; }

 private:
  // In thousandths of a GPU.
  double Fragments(const Rest& rest) const {
    std::int64_t all = 0;
    for (const std::int64_t free : rest.free) all += free;
    if (all == 0) return 0;
    double sum = 0;
    for (const Typical& kind : typical_) {
      int enough = 0;
      std::int64_t too_little = 0;
      for (const std::int64_t free : rest.free) (free >= kind.milli[rest.type] ? enough += 1 : too_little += free);
      const bool runs = kind.gpus > 0 && enough >= kind.gpus && rest.cpu >= kind.cpu;
      sum += kind.often * static_cast<double>(runs ? too_little : all);
    }
    return sum;
  }

  std::optional<Choice> OneGpu(const NodeState& node, Rest& rest, std::int64_t milli, double before) const {
    std::optional<Choice> best;
    for (std::size_t i = 0; i < rest.free.size(); ++i) {
      const std::int64_t free = rest.free[i];
      const auto end = rest.free.begin() + static_cast<std::ptrdiff_t>(i);
      if (free < milli || std::find(rest.free.begin(), end, free) != end) continue;
      rest.free[i] -= milli;
      const double score = Whole(before - Fragments(rest));
      rest.free[i] = free;
      if (!best || score > best->score) best = Choice{.score = score, .gpus = {node.first + i}};
    }
    return best;
  }

  // The fullest that have enough left.
  std::optional<Choice> Several(const NodeState& node, Rest& rest, std::int64_t milli, int gpus, double before) const {
    std::vector<std::pair<std::int64_t, std::size_t>> fit;
    for (std::size_t i = 0; i < rest.free.size(); ++i) {
      if (rest.free[i] >= milli) fit.emplace_back(rest.free[i], i);
    }
    if (fit.size() < static_cast<std::size_t>(gpus)) return std::nullopt;
    std::ranges::sort(fit);
    Choice out;
    for (std::size_t i = 0; i < static_cast<std::size_t>(gpus); ++i) {
      rest.free[fit[i].second] -= milli;
      out.gpus.push_back(node.first + fit[i].second);
    }
    out.score = Whole(before - Fragments(rest));
    return out;
  }

  std::vector<Typical> typical_;
};

}  // namespace

std::unique_ptr<Policy> MakeFgd(const Hardware& hardware, const Workload& workload) {
  return std::make_unique<Fgd>(hardware, workload);
}

}  // namespace ebbtide::cluster
