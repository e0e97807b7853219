// Who runs next: which job is asked for a place, where it goes, and what is kept for one that finds none.
#include <algorithm>
#include <cassert>

#include "cluster/simulation.h"

namespace ebbtide::cluster {
namespace {

// Where a GPU is to be kept for a job, so many nodes are looked at.
constexpr std::size_t kMostNodesLookedAt = 256;

}  // namespace

void Simulation::Schedule() {
  StartAgain();
  if (policy_->InOrder()) {
    while (again_.empty() && !waiting_.empty() && TryKind(waiting_.order().begin()->second)) continue;
    return;
  }
  KeepForFirst();
  // Each success changes the order; kinds that were looked at in vain are passed over.
  for (bool any = true; any;) {
    any = false;
    for (const auto& [rank, kind] : waiting_.order()) {
      if (waiting_.looked(kind) == left_.size()) continue;
      any = TryKind(kind);
      if (any) break;
      if (rank == waiting_.order().begin()->first) KeepForFirst();  // before others take what it waits for
    }
  }
  KeepForFirst();
}

bool Simulation::TryKind(std::size_t kind) {
  const std::size_t job = waiting_.First(kind);
  const bool kept = job == kept_for_;
  if (kept) Close(kept_, false);
  const std::size_t looked = waiting_.looked(kind);
  double best = 0;
  std::size_t best_node = state_.nodes.size();
  const auto look = [&](std::size_t node) {
    const double score = ScoreOf(kind, node);
    if (score > -kForever &&
        (best_node == state_.nodes.size() || score > best || (score == best && node < best_node))) {
      best = score;
      best_node = node;
    }
  };
  if (looked == Waiting::kNever || left_.size() - looked > state_.nodes.size()) {
    for (std::size_t node = 0; node < state_.nodes.size(); ++node) look(node);
  } else {
    for (std::size_t i = looked; i < left_.size(); ++i) look(left_[i]);
  }
  if (best_node == state_.nodes.size()) {
    if (kept) Close(kept_, true);
    waiting_.Looked(kind, left_.size());
    return false;
  }
  const std::optional<Choice> choice = policy_->OnNode(state_, state_.nodes[best_node], kind);
  assert(choice);
  waiting_.Pop(kind);
  Start(job, best_node, choice->gpus, false);
  if (kept) Release();
  return true;
}

double Simulation::ScoreOf(std::size_t kind, std::size_t node) {
  std::vector<Score>& known = scores_[kind];
  if (known.empty()) known.resize(state_.nodes.size());
  Score& score = known[node];
  if (score.version != state_.nodes[node].version) {
    const std::optional<Choice> choice = policy_->OnNode(state_, state_.nodes[node], kind);
    score = {choice ? choice->score : -kForever, state_.nodes[node].version};
  }
  return score.value;
}

void Simulation::StartAgain() {
  while (!again_.empty()) {
    const std::size_t job = again_.front();
    const Kind& kind = state_.kind(state_.workload.jobs[job].kind);
    std::size_t best = 0, fewest = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> gpus;
    if (!kept_again_.empty()) {
      gpus = kept_again_;
      fewest = 0;
      for (const std::size_t gpu : gpus) fewest += state_.gpus[gpu].slots.size();
      best = state_.gpus[gpus.front()].node;
    } else {
      for (std::size_t number = 0; number < state_.nodes.size() && fewest > 0; ++number) {
        const auto [slots, found] = EmptiestOf(state_.nodes[number], kind);
        if (found.empty() || slots >= fewest) continue;
        fewest = slots, best = number, gpus = found;
      }
      if (gpus.empty()) return;  // all that could do are kept for another
      Close(gpus, true);
      kept_again_ = gpus;
    }
    if (fewest > 0 || !state_.HostFits(state_.nodes[best], kind)) return;
    again_.pop_front();
    kept_again_.clear();
    Start(job, best, gpus, true);
  }
}

std::pair<std::size_t, std::vector<std::size_t>> Simulation::EmptiestOf(const NodeState& node, const Kind& kind) const {
  std::vector<std::pair<std::size_t, std::size_t>> open;
  for (std::size_t gpu = node.first; gpu < node.first + static_cast<std::size_t>(node.gpus); ++gpu) {
    const Gpu& at = state_.gpus[gpu];
    if (!at.closed && kind.on[at.type].memory <= state_.memory(at)) open.emplace_back(at.slots.size(), gpu);
  }
  if (open.size() < static_cast<std::size_t>(kind.gpus)) return {};
  std::ranges::sort(open);
  std::size_t slots = 0;
  std::vector<std::size_t> gpus;
  for (std::size_t i = 0; i < static_cast<std::size_t>(kind.gpus); ++i) {
    slots += open[i].first;
    gpus.push_back(open[i].second);
  }
  return {slots, gpus};
}

void Simulation::Close(const std::vector<std::size_t>& gpus, bool closed) {
  for (const std::size_t gpu : gpus) state_.gpus[gpu].closed = closed;
  Changed(state_.gpus[gpus.front()].node);
}

void Simulation::Release() {
  if (kept_.empty()) return;
  Close(kept_, false);
  Left(state_.gpus[kept_.front()].node);
  kept_.clear();
  kept_for_ = Waiting::kNever;
}

void Simulation::KeepForFirst() {
  if (!policy_->HoldsForFirst()) return;
  if (waiting_.empty()) return Release();
  const std::size_t number = waiting_.order().begin()->second, job = waiting_.First(number);
  if (kept_for_ == job) return;
  Release();
  const Kind& kind = state_.kind(number);
  if (kind.by_share() || waiting_.looked(number) != left_.size()) return;
  double soonest = kForever;
  std::vector<std::size_t> gpus;
  const std::size_t from_node = state_.nodes.size() > kMostNodesLookedAt ? job : 0;
  for (std::size_t i = 0; i < std::min(kMostNodesLookedAt, state_.nodes.size()); ++i) {
    const NodeState& node = state_.nodes[(from_node + i) % state_.nodes.size()];
    std::vector<std::pair<double, std::size_t>> times;
    for (std::size_t gpu = node.first; gpu < node.first + static_cast<std::size_t>(node.gpus); ++gpu) {
      if (!state_.gpus[gpu].closed) times.emplace_back(RoomFrom(gpu, number), gpu);
    }
    if (times.size() < static_cast<std::size_t>(kind.gpus)) continue;
    std::ranges::sort(times);
    const double from = times[static_cast<std::size_t>(kind.gpus) - 1].first;
    if (from <= state_.now) return;  // there is room; it waits because nothing would be gained
    if (from >= soonest) continue;
    soonest = from;
    gpus.clear();
    for (int k = 0; k < kind.gpus; ++k) gpus.push_back(times[static_cast<std::size_t>(k)].second);
  }
  if (gpus.empty()) return;
  kept_ = gpus;
  kept_for_ = job;
  Close(kept_, true);
}

double Simulation::RoomFrom(std::size_t number, std::size_t kind) const {
  const Gpu& gpu = state_.gpus[number];
  const OnGpu& on = state_.on(kind, gpu);
  if (on.estimate > state_.memory(gpu)) return kForever;
  Bytes room = state_.memory(gpu) - gpu.reserved;
  const Bytes need = policy_->Reserve(state_, gpu, kind);
  std::vector<std::pair<double, Bytes>> ends;
  for (const Slot& slot : gpu.slots) {
    const Running& job = running_[slot.job];
    ends.emplace_back(state_.now + BelievedLeft(slot.job) / job.rate, slot.reserved);
  }
  std::ranges::sort(ends);
  double at = state_.now;
  for (std::size_t i = 0; i < ends.size() && room < need; ++i) {
    at = std::max(at, ends[i].first);
    room += ends[i].second;
  }
  return room >= need ? at : kForever;
}

}  // namespace ebbtide::cluster
