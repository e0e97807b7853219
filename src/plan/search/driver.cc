// Runs a step op by op: what each op needs is brought or made again first, and goes when nobody wants it any more.
#include "plan/search/driver.h"

#include <algorithm>
#include <cassert>

namespace ebbtide::plan {

namespace {

// Between two questions whether the answer is still wanted.
constexpr std::size_t kStepsPerQuestion = 8;

}  // namespace

Driver::Driver(const Problem& problem, bool record, Freeing freeing)
    : problem_(problem),
      workload_(*problem.workload),
      machine_(*problem.workload, problem.link, record),
      freeing_(freeing),
      most_steps_(8 * problem.workload->ops() + 64),
      next_use_place_(workload_.storages(), 0),
      locks_(workload_.storages(), 0),
      is_idle_(workload_.storages(), false) {
  if (freeing == Freeing::kLastReference) {
    held_until_ = &workload_.last_reference;
  } else if (workload_.HasExchanges()) {
    held_until_ = &workload_.held_until;
  }
  if (held_until_ == nullptr) return;
  IdVector<OpId, std::vector<StorageId>> lists(workload_.ops());
  for (const StorageId s : workload_.storage_ids()) {
    const bool is_held = (*held_until_)[s].valid() && !workload_.outlives[s];
    if (is_held) lists[(*held_until_)[s]].push_back(s);
  }
  for (const auto& list : lists) dereferenced_.Add(list);
}

bool Driver::Run() {
  for (const StorageId s : workload_.storage_ids()) {
    if (!IsMovableState(problem_, s) || !NextUse(s).valid()) continue;
    is_idle_[s] = true;
    BecomeIdle(s);
  }
  for (next_op_ = OpId(0); next_op_ < workload_.time.end_id(); ++next_op_) {
    BeforeOp(next_op_);
    if (!Require(next_op_) || !RunOnce(next_op_, false)) return false;
    Release(next_op_);
    AfterOp(next_op_);
    const Nanos to_come = problem_.clock.back() - problem_.clock[next_op_.Next()] + owed_;
    if (machine_.now() > time_limit_ - to_come || machine_.host_peak() > problem_.limits.host) return false;
  }
  return true;
}

// ---- What ops need

bool Driver::Require(OpId op) {
  const auto needs = workload_.needs[op];
  for (const StorageId s : needs) {
    if (machine_.OnDevice(s)) Lock(s);
  }
  for (const StorageId s : needs) {
    if (locks_[s] > 0 || !machine_.OnHost(s)) continue;
    if (!Fetch(s)) return false;
    Lock(s);
  }
  for (const StorageId s : needs) {
    if (locks_[s] > 0) continue;
    // Making another again may have brought it along.
    if (machine_.OnDevice(s)) {
      Lock(s);
    } else if (!Remake(s)) {
      return false;
    }
  }
  return true;
}

void Driver::Lock(StorageId s) {
  ++locks_[s];
  std::erase(held_, s);
  if (!is_idle_[s]) return;
  is_idle_[s] = false;
  EndIdle(s);
}

OpId Driver::NextWish(StorageId s) const {
  OpId next = NextUse(s);
  if (workload_.IsState(s)) return next;
  for (const StorageId other : problem_.neighbours[s]) {
    if (workload_.born[other] <= workload_.born[s] || machine_.OnDevice(other) || machine_.OnHost(other)) continue;
    if (workload_.born[other] < next_op_)
      next = std::min(next, NextUse(other), [](OpId a, OpId b) { return NoneLast(a) < NoneLast(b); });
  }
  return next;
}

// Where nobody holds it any more it is idle, or gone if no op of the graph wants it.
void Driver::Unlock(StorageId s) {
  if (--locks_[s] > 0) return;
  // Without knowledge of what comes, what was made again for another's sake waits to be evicted.
  const bool is_unknown = freeing_ == Freeing::kLastReference && !stack_.empty() && !workload_.outlives[s];
  // What was made again on the way to something may be on the way to something else.
  const bool is_on_the_way =
      freeing_ == Freeing::kLastUse && !stack_.empty() && !workload_.outlives[s] && NextWish(s).valid();
  const bool is_referenced = freeing_ == Freeing::kLastReference && IsReferenced(s);
  if (NextUse(s).valid() || is_referenced || is_unknown || is_on_the_way) {
    is_idle_[s] = true;
    BecomeIdle(s);
  } else if (IsReferenced(s)) {
    held_.push_back(s);
  } else if (!workload_.outlives[s]) {
    machine_.Drop(s, sim::End::kFree);
    BecomeGone(s);
  }
}

void Driver::Release(OpId op) {
  for (const StorageId s : workload_.needs[op]) ++next_use_place_[s];
  for (const StorageId s : workload_.births[op]) {
    ++next_use_place_[s];
    Lock(s);
  }
  for (const StorageId s : workload_.needs[op]) Unlock(s);
  for (const StorageId s : workload_.births[op]) Unlock(s);
  if (held_until_ == nullptr) return;
  if (freeing_ == Freeing::kLastUse) {
    for (const StorageId s : dereferenced_[op]) {
      if (std::erase(held_, s) > 0) LetGo(s);
    }
    return;
  }
  for (const StorageId s : dereferenced_[op]) {
    if (!is_idle_[s]) continue;
    is_idle_[s] = false;
    EndIdle(s);
    machine_.Drop(s, sim::End::kFree);
    BecomeGone(s);
  }
}

void Driver::LetGo(StorageId s) {
  machine_.Drop(s, sim::End::kFree);
  BecomeGone(s);
}

// What only the communication stream still uses goes first, whatever derived classes give up: compute waits for it.
bool Driver::FindRoom(Bytes room) {
  while (!held_.empty() && machine_.used() + room > problem_.limits.budget) {
    const StorageId first = held_.front();
    held_.erase(held_.begin());
    LetGo(first);
  }
  return MakeRoom(room);
}

bool Driver::Fetch(StorageId s) {
  if (!FindRoom(workload_.bytes[s])) return false;
  BringBack(s);
  return true;
}

void Driver::BringBack(StorageId s) {
  machine_.BeginCopyIn(s, NextUse(s));
  peak_ = std::max(peak_, machine_.used());
  ComeBack(s);
  is_idle_[s] = true;
  BecomeIdle(s);
}

std::span<const OpId> Driver::RecipeSoFar(StorageId s) const {
  const auto recipe = workload_.recipe[s];
  return {recipe.begin(), std::ranges::lower_bound(recipe, next_op_)};
}

// Runs the storage's recipe again, and before it those of inputs that are not there. The storage is locked once then.
bool Driver::Remake(StorageId target) {
  stack_.push_back({target});
  while (true) {
    const StorageId made = stack_.back().storage;
    const auto recipe = RecipeSoFar(made);
    if (recipe.empty() || !problem_.limits.may_recompute) return false;
    if (stack_.back().recipe_place == recipe.size()) {
      stack_.pop_back();
      if (stack_.empty()) return true;
      ++stack_.back().need_place;  // the lock on it is the waiting op's
      continue;
    }
    const OpId op = recipe[stack_.back().recipe_place];
    const auto needs = workload_.needs[op];
    bool waits = false;
    for (std::uint32_t& place = stack_.back().need_place; place < needs.size(); ++place) {
      const StorageId s = needs[place];
      if (s == made) continue;
      if (!machine_.OnDevice(s)) {
        if (!machine_.OnHost(s)) {
          waits = true;
          break;
        }
        if (!Fetch(s)) return false;
      }
      Lock(s);
    }
    if (waits) {
      stack_.push_back({needs[stack_.back().need_place]});
      continue;
    }
    if (!RunOnce(op, true)) return false;
    for (const StorageId s : needs) {
      if (s != made) Unlock(s);
    }
    if (stack_.back().recipe_place == 0) {
      Lock(made);
      EndGone(made);
      ComeBack(made);
    }
    ++stack_.back().recipe_place;
    stack_.back().need_place = 0;
  }
}

bool Driver::RunOnce(OpId op, bool again) {
  if (machine_.steps() >= most_steps_) return false;
  if (machine_.steps() % kStepsPerQuestion == 0 && IsOver()) return false;
  const Bytes room = machine_.RoomFor(op, again);
  if (!FindRoom(room)) return false;
  peak_ = std::max(peak_, machine_.used() + room);
  if (!again) {
    machine_.Run(op, false);
    return true;
  }
  also_made_.clear();
  for (const StorageId s : workload_.births[op]) {
    if (s != stack_.back().storage && !machine_.OnDevice(s)) also_made_.push_back(s);
  }
  machine_.Run(op, true);
  // What else the op makes is kept if it is wanted and complete as it is.
  for (const StorageId s : also_made_) {
    if (RecipeSoFar(s).size() == 1 && NextUse(s).valid() && !machine_.OnHost(s)) {
      EndGone(s);
      ComeBack(s);
      is_idle_[s] = true;
      BecomeIdle(s);
    } else {
      machine_.Drop(s, sim::End::kDrop);
    }
  }
  return true;
}

// ---- What leaves

void Driver::Forget(StorageId s) {
  assert(is_idle_[s]);
  is_idle_[s] = false;
  EndIdle(s);
  machine_.Drop(s, sim::End::kDrop);
  BecomeGone(s);
}

void Driver::LeaveForHost(StorageId s) {
  assert(is_idle_[s]);
  is_idle_[s] = false;
  EndIdle(s);
  if (!machine_.OnHost(s)) machine_.BeginCopyOut(s);
  machine_.FinishCopyOut(s);
}

}  // namespace ebbtide::plan
