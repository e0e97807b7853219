// Who gets which GPU: one file per policy, each with whose rule it is.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cluster/state.h"

namespace ebbtide::cluster {

struct Choice {
  double score = 0;               // of all nodes, the one with the highest is taken; of equals, the first
  std::vector<std::size_t> gpus;  // as many as the kind asks for
};

class Policy {
 public:
  virtual ~Policy() = default;

  // Where on this node a job of the kind would go; nullopt: nowhere, now. Depends on the node's own state and on
  // `state.now` only by `settled_at`: an answer holds until the node changes.
  virtual std::optional<Choice> OnNode(const State& state, const NodeState& node, std::size_t kind) = 0;
  // What is set aside of each GPU for a job of this kind.
  virtual Bytes Reserve(const State& state, const Gpu& gpu, std::size_t kind) const = 0;
  // More than this, and the process is out of memory, whatever is left of the GPU.
  virtual std::optional<Bytes> Limit(const State&, const Gpu&, std::size_t /*kind*/) const { return std::nullopt; }
  // Jobs that come later wait for those before them, though there is room for them.
  virtual bool InOrder() const { return false; }
  // Jobs that wait are asked for a place in this order, the lowest first.
  virtual double Rank(const Job& job) const { return job.arrival; }
  // Where the first job that waits fits nowhere, the GPU at which it will fit soonest is kept for it.
  virtual bool HoldsForFirst() const { return false; }
  // Ways to go on, the usual one first: where jobs wait, and few enough are known, each is followed to the end of all
  // that are known, and the best one is taken from there. Empty: the policy has no choice. They live as long as it
  // does.
  virtual std::vector<Policy*> Ways() { return {}; }
  // Seconds after a start in which the GPU takes no other job.
  virtual double SettleSeconds() const { return 0; }
  // A job that cannot run on any GPU of the cluster is refused when it comes, before it fails.
  virtual bool RefusesTooLarge() const { return false; }
};

struct PolicyRow {
  std::string_view name;
  std::string_view rule;  // one line
  std::unique_ptr<Policy> (*make)(const Hardware& hardware, const Workload& workload);
};
// In the order in which they are shown.
const std::vector<PolicyRow>& Policies();
const PolicyRow* FindPolicy(std::string_view name);

// ---- One file each
std::unique_ptr<Policy> MakeExclusive(const Hardware&, const Workload&);
std::unique_ptr<Policy> MakeMps(const Hardware&, const Workload&);
std::unique_ptr<Policy> MakeCarma(const Hardware&, const Workload&);
std::unique_ptr<Policy> MakeFgd(const Hardware&, const Workload&);
std::unique_ptr<Policy> MakeBestFit(const Hardware&, const Workload&);
std::unique_ptr<Policy> MakeEbbtide(const Hardware&, const Workload&);

// ---- For several of them
// What a job of the kind asks of a GPU, in thousandths: as it says, else what is set aside of the memory, rounded up.
// One that is predicted to fit alone asks for all of the GPU at most, one that is not for more than that.
std::int64_t MilliOf(const State& state, const Gpu& gpu, std::size_t kind);

// The best GPUs of a node by a score of each: nullopt from `score` keeps a GPU out. The choice's score is the mean.
template <class Score>
std::optional<Choice> BestOf(const State& state, const NodeState& node, std::size_t kind, const Score& score) {
  const Kind& of = state.kind(kind);
  if (!state.HostFits(node, of)) return std::nullopt;
  if (of.gpus == 0) return Choice{.score = 0, .gpus = {}};
  std::vector<std::pair<double, std::size_t>> scores;
  for (std::size_t gpu = node.first; gpu < node.first + static_cast<std::size_t>(node.gpus); ++gpu) {
    const Gpu& at = state.gpus[gpu];
    if (at.closed || at.slots.size() >= kMostOnGpu || at.settled_at > state.now) continue;
    if (const std::optional<double> value = score(at)) scores.emplace_back(-*value, gpu);
  }
  const auto count = static_cast<std::size_t>(of.gpus);
  if (scores.size() < count) return std::nullopt;
  std::partial_sort(scores.begin(), scores.begin() + of.gpus, scores.end());
  Choice out;
  for (std::size_t i = 0; i < count; ++i) {
    out.score -= scores[i].first / of.gpus;
    out.gpus.push_back(scores[i].second);
  }
  return out;
}

}  // namespace ebbtide::cluster
