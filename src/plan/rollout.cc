#include "plan/rollout.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ebbtide::plan {

using sim::kNone;

namespace {

// Shifts between classes of storages in the order in which they are given up, in doublings of cost.
constexpr float kRecomputeFirst = 30;

float Log2(double value) { return std::log2(static_cast<float>(std::max(value, 1e-9))); }

}  // namespace

Preferences Neutral(const sim::Workload& workload) {
  return {.choice = std::vector<Choice>(workload.storages(), Choice::kKeep),
          .weight = std::vector<float>(workload.storages(), 0.0f)};
}

Rollout::Rollout(const Problem& problem, const Preferences& preferences, bool record)
    : problem_(problem),
      workload_(*problem.workload),
      preferences_(preferences),
      machine_(*problem.workload, problem.link, record),
      most_steps_(8 * problem.workload->ops() + 64),
      time_limit_(std::numeric_limits<Nanos>::max()),
      next_use_place_(workload_.storages(), 0),
      locks_(workload_.storages(), 0),
      idle_place_(workload_.storages(), kNone),
      missing_from_(workload_.storages(), kNone),
      gone_(workload_.storages()) {
  if (problem.limits.may_swap) forecast_ = Forecast(problem.live);
}

// The storage has left the device but is needed again; it is back.
void Rollout::Miss(Index s) {
  if (!problem_.limits.may_swap) return;
  missing_from_[s] = NextUse(s);
  forecast_.Add(missing_from_[s], workload_.bytes[s]);
}

void Rollout::Welcome(Index s) {
  if (missing_from_[s] == kNone) return;
  forecast_.Add(missing_from_[s], -workload_.bytes[s]);
  missing_from_[s] = kNone;
}

Index Chains::Find(Index node) {
  while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
  return node;
}

void Chains::Add(Index s, Nanos cost) {
  node_[s] = static_cast<Index>(parent_.size());
  parent_.push_back(node_[s]);
  cost_.push_back(cost);
}

void Chains::Join(Index a, Index b) {
  const Index x = GroupOf(a), y = GroupOf(b);
  if (x == y) return;
  parent_[y] = x;
  cost_[x] += cost_[y];
}

void Chains::Remove(Index s, Nanos cost) {
  cost_[GroupOf(s)] -= cost;
  node_[s] = kNone;
}

void Rollout::JoinGone(Index s) {
  if (workload_.recipe[s].empty()) return;
  gone_.Add(s, problem_.again[s]);
  for (const Index other : problem_.neighbours[s]) {
    if (gone_.Has(other)) gone_.Join(s, other);
  }
}

void Rollout::LeaveGone(Index s) {
  if (gone_.Has(s)) gone_.Remove(s, problem_.again[s]);
}

Index Rollout::NextUse(Index s) const {
  const auto uses = workload_.uses[s];
  const std::uint32_t place = next_use_place_[s];
  return place < uses.size() ? uses[place] : kNone;
}

bool Rollout::Run() {
  for (next_op_ = 0; next_op_ < workload_.ops(); ++next_op_) {
    Prefetch();
    BeginCopies();
    if (!Require(next_op_) || !RunOnce(next_op_, false)) return false;
    AfterNeeds(next_op_);
    if (machine_.now() > time_limit_) return false;
  }
  return true;
}

// ---- Bringing storages to the device

bool Rollout::Require(Index op) {
  const auto needs = workload_.needs[op];
  for (const Index s : needs) {
    if (machine_.OnDevice(s)) Lock(s);
  }
  for (const Index s : needs) {
    if (locks_[s] > 0) continue;
    if (machine_.OnHost(s)) {
      if (!Fetch(s)) return false;
      Lock(s);
    }
  }
  for (const Index s : needs) {
    if (locks_[s] == 0 && !Remake(s)) return false;
  }
  return true;
}

void Rollout::Lock(Index s) {
  ++locks_[s];
  const std::uint32_t place = idle_place_[s];
  if (place == kNone) return;
  idle_[place] = idle_.back();
  idle_place_[idle_[place]] = place;
  idle_.pop_back();
  idle_place_[s] = kNone;
}

// Where nobody holds it any more it is idle, or gone if no op of the graph wants it.
void Rollout::Unlock(Index s) {
  if (--locks_[s] > 0) return;
  if (NextUse(s) != kNone) {
    BecomeIdle(s);
  } else if (!workload_.outlives[s]) {
    machine_.Drop(s, sim::End::kFree);
    JoinGone(s);
  }
}

bool Rollout::Fetch(Index s) {
  if (!MakeRoom(workload_.bytes[s])) return false;
  machine_.BeginCopyIn(s, NextUse(s) == kNone ? next_op_ : NextUse(s));
  Welcome(s);
  std::erase_if(away_, [&](const auto& entry) { return entry.second == s; });
  std::ranges::make_heap(away_, std::greater<>());
  peak_ = std::max(peak_, machine_.used());
  return true;
}

// Runs the storage's recipe again, and before it those of inputs that are not there. The storage is locked once then.
bool Rollout::Remake(Index target) {
  stack_.push_back({target});
  while (true) {
    Frame& frame = stack_.back();
    const auto recipe = workload_.recipe[frame.storage];
    if (frame.recipe_place == recipe.size()) {
      if (recipe.empty()) return false;  // it cannot be made again
      stack_.pop_back();
      if (stack_.empty()) return true;
      ++stack_.back().need_place;  // the lock on it is the waiting op's
      continue;
    }
    const Index op = recipe[frame.recipe_place];
    const auto needs = workload_.needs[op];
    bool waits = false;
    for (; frame.need_place < needs.size() && !waits; ++frame.need_place) {
      const Index s = needs[frame.need_place];
      if (s == frame.storage) continue;
      if (!machine_.OnDevice(s)) {
        if (!machine_.OnHost(s)) {
          waits = true;
          stack_.push_back({s});
          break;
        }
        if (!Fetch(s)) return false;
      }
      Lock(s);
    }
    if (waits) continue;
    if (!RunOnce(op, true)) return false;
    const Index made = stack_.back().storage;
    for (const Index s : needs) {
      if (s != made) Unlock(s);
    }
    if (stack_.back().recipe_place == 0) {
      Lock(made);
      LeaveGone(made);
      Welcome(made);
    }
    ++stack_.back().recipe_place;
    stack_.back().need_place = 0;
  }
}

bool Rollout::RunOnce(Index op, bool again) {
  if (machine_.steps() >= most_steps_) return false;
  const Bytes room = machine_.RoomFor(op, again);
  if (!MakeRoom(room)) return false;
  peak_ = std::max(peak_, machine_.used() + room);
  if (!again) {
    machine_.Run(op, false);
    return true;
  }
  const Index target = stack_.back().storage;
  also_made_.clear();
  for (const Index s : workload_.births[op]) {
    if (s != target && !machine_.OnDevice(s)) also_made_.push_back(s);
  }
  machine_.Run(op, true);
  // What else the op makes is kept if it is wanted and complete as it is.
  for (const Index s : also_made_) {
    if (workload_.recipe[s].size() == 1 && NextUse(s) != kNone && !machine_.OnHost(s)) {
      BecomeIdle(s);
      LeaveGone(s);
      Welcome(s);
    } else {
      machine_.Drop(s, sim::End::kDrop);
    }
  }
  return true;
}

void Rollout::AfterNeeds(Index op) {
  for (const Index s : workload_.needs[op]) ++next_use_place_[s];
  for (const Index s : workload_.births[op]) {
    ++next_use_place_[s];
    Lock(s);
  }
  for (const Index s : workload_.needs[op]) Unlock(s);
  for (const Index s : workload_.births[op]) Unlock(s);
}

// Keeps the stream to the host busy with what is dearest to make again.
void Rollout::BeginCopies() {
  if (!problem_.limits.may_swap) return;
  const Nanos until = machine_.now() + workload_.time[next_op_];
  while (machine_.out_free() < until) {
    Index best = kNone;
    float best_value = -std::numeric_limits<float>::infinity();
    for (const Index s : idle_) {
      if (preferences_.choice[s] != Choice::kSwap || machine_.OnHost(s) || NextUse(s) != problem_.longest_gap[s]) continue;
      const Bytes bytes = workload_.bytes[s];
      if (machine_.host_used() + bytes > problem_.limits.host) continue;
      const Nanos distance = problem_.clock[NextUse(s)] - problem_.clock[next_op_];
      if (distance < problem_.link.TimeOut(bytes) + problem_.link.TimeIn(bytes)) continue;
      const float value = problem_.value[s] + preferences_.weight[s];
      if (value > best_value || (value == best_value && s < best)) best_value = value, best = s;
    }
    if (best == kNone) return;
    machine_.BeginCopyOut(best);
    leaving_.push_back(best);
  }
}

void Rollout::BecomeIdle(Index s) {
  const bool can_leave = (problem_.limits.may_recompute && !workload_.recipe[s].empty()) ||
                         (problem_.limits.may_swap && workload_.born[s] != kNone);
  if (!can_leave || workload_.bytes[s] == 0) return;
  idle_place_[s] = static_cast<std::uint32_t>(idle_.size());
  idle_.push_back(s);
}

// Copies come back as soon as there is room for them until they are needed, the soonest needed first.
void Rollout::Prefetch() {
  while (!away_.empty()) {
    const auto [next_use, s] = away_.front();
    const Bytes growth = forecast_.Most(next_op_, std::max(next_use, next_op_ + 1)) - problem_.before[next_op_];
    if (machine_.used() + workload_.bytes[s] + std::max<Bytes>(growth, 0) > problem_.limits.budget) return;
    std::ranges::pop_heap(away_, std::greater<>());
    away_.pop_back();
    machine_.BeginCopyIn(s, next_use);
    Welcome(s);
    peak_ = std::max(peak_, machine_.used());
    BecomeIdle(s);
  }
}

// ---- Making room

bool Rollout::MakeRoom(Bytes room) {
  while (machine_.used() + room > problem_.limits.budget) {
    if (!GiveUpOne()) return false;
  }
  return true;
}

// How much it costs to give the storage up now; the least goes first.
float Rollout::KeyOf(Index s, Index next_use) {
  const Nanos distance = problem_.clock[next_use] - problem_.clock[next_op_] + 1;
  const double bytes = static_cast<double>(workload_.bytes[s]);
  const float far = static_cast<float>(preferences_.distance_power) * Log2(static_cast<double>(distance));
  if (machine_.OnHost(s)) {
    const Nanos back = problem_.link.TimeIn(workload_.bytes[s]);
    return Log2((distance < 2 * back ? static_cast<double>(back) : 1.0) / bytes) - far;
  }
  const bool recompute = problem_.limits.may_recompute && !workload_.recipe[s].empty();
  Nanos cost = problem_.again[s];
  if (recompute) {
    groups_.clear();
    for (const Index other : problem_.neighbours[s]) {
      if (!gone_.Has(other)) continue;
      const Index group = gone_.GroupOf(other);
      if (std::ranges::find(groups_, group) != groups_.end()) continue;
      groups_.push_back(group);
      cost += gone_.CostOf(group);
    }
  } else {
    cost = problem_.link.TimeOut(workload_.bytes[s]) + problem_.link.TimeIn(workload_.bytes[s]);
  }
  const float key = Log2(static_cast<double>(cost + 1) / bytes) + preferences_.weight[s] - far;
  return preferences_.choice[s] == Choice::kRecompute ? key - kRecomputeFirst : key;
}

// Not while a copy reads or may write it.
bool Rollout::CanLeaveNow(Index s) const {
  return machine_.Settled(s) && !(machine_.OnHost(s) && machine_.HostReady(s) > machine_.now());
}

void Rollout::PickVictims() {
  victims_.clear();
  for (const Index s : idle_) {
    if (!CanLeaveNow(s)) continue;
    const Index next_use = NextUse(s);
    victims_.push_back({KeyOf(s, next_use), s, next_use});
  }
  const auto before = [](const Victim& a, const Victim& b) { return std::pair(a.key, a.storage) > std::pair(b.key, b.storage); };
  const std::size_t batch = std::max<std::size_t>(1, static_cast<std::size_t>(std::ldexp(static_cast<double>(victims_.size()), -static_cast<int>(preferences_.batch))));
  if (victims_.size() > batch) {
    std::ranges::nth_element(victims_, victims_.end() - static_cast<std::ptrdiff_t>(batch), before);
    victims_.erase(victims_.begin(), victims_.end() - static_cast<std::ptrdiff_t>(batch));
  }
  std::ranges::sort(victims_, before);
  victims_from_ = machine_.steps();
}

// Whether the last of the victims is still the one to give up. It is taken out or moved back if not: giving up others
// may have made it dearer.
bool Rollout::IsFirst() {
  Victim& last = victims_.back();
  if (idle_place_[last.storage] == kNone || NextUse(last.storage) != last.next_use || !CanLeaveNow(last.storage)) {
    victims_.pop_back();
    return false;
  }
  last.key = KeyOf(last.storage, last.next_use);
  const std::size_t n = victims_.size();
  if (n < 2 || last.key <= victims_[n - 2].key) return true;
  for (std::size_t i = n - 1; i > 0 && victims_[i].key > victims_[i - 1].key; --i) std::swap(victims_[i], victims_[i - 1]);
  return false;
}

bool Rollout::GiveUpOne() {
  constexpr Index kStale = 32;  // steps after which victims are chosen anew
  while (first_leaving_ < leaving_.size()) {
    const Index s = leaving_[first_leaving_];
    if (idle_place_[s] != kNone && machine_.OnHost(s) && machine_.OnDevice(s)) break;
    ++first_leaving_;  // it was needed before it had left
  }
  const bool may_wait = first_leaving_ < leaving_.size();
  const Index leaver = may_wait ? leaving_[first_leaving_] : 0;
  if (may_wait && machine_.HostReady(leaver) <= machine_.now()) {
    ++first_leaving_;
    GiveUp(leaver);
    return true;
  }
  if (machine_.steps() > victims_from_ + kStale) victims_.clear();
  while (!victims_.empty() && !IsFirst()) {
  }
  if (victims_.empty()) PickVictims();
  if (victims_.empty() && !may_wait) return false;
  if (may_wait) {
    // The copy comes to its end without being waited for, too: so the whole of it is the price of its bytes.
    const Bytes bytes = workload_.bytes[leaver];
    const float price = Log2(static_cast<double>(problem_.link.TimeOut(bytes)) / static_cast<double>(bytes));
    if (victims_.empty() || price <= problem_.value[victims_.back().storage] + preferences_.weight[victims_.back().storage]) {
      ++first_leaving_;
      GiveUp(leaver);
      return true;
    }
  }
  const Index victim = victims_.back().storage;
  victims_.pop_back();
  GiveUp(victim);
  return true;
}

void Rollout::GiveUp(Index s) {
  const Index next_use = NextUse(s);
  Lock(s);  // no longer idle
  --locks_[s];
  Miss(s);
  if (!machine_.OnHost(s)) {
    if (problem_.limits.may_recompute && !workload_.recipe[s].empty()) {
      machine_.Drop(s, sim::End::kDrop);
      JoinGone(s);
      return;
    }
    machine_.BeginCopyOut(s);
  }
  machine_.FinishCopyOut(s);
  away_.emplace_back(next_use, s);
  std::ranges::push_heap(away_, std::greater<>());
}

}  // namespace ebbtide::plan
