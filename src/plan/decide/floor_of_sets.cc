// A floor that looks behind the needs of an op: at what it takes to have them all at one moment. docs/plan-bound.md has
// the proof.
#include <algorithm>
#include <map>
#include <queue>

#include "plan/decide/reach.h"

namespace ebbtide::plan {
namespace {

constexpr std::size_t kMostOps = 3000;            // of graphs that are looked at
constexpr std::size_t kMostTogether = 96;         // storages of one set
constexpr std::int64_t kMostSets = 4000;          // for one op
constexpr std::int64_t kMostVisits = 20'000'000;  // of ops, while sets are looked at, in all

using Set = std::vector<StorageId>;  // in order, without state

class Lifting {
 public:
  explicit Lifting(const Problem& problem)
      : problem_(problem), workload_(*problem.workload), seen_(workload_.ops(), 0) {
    for (const StorageId s : workload_.storage_ids()) {
      if (workload_.IsState(s)) state_ += workload_.bytes[s];
    }
  }

  Bytes Run(OpId* op) {
    floor_ = Floor(problem_, op) - state_;
    std::vector<std::pair<Bytes, OpId>> order;
    for (const OpId t : workload_.op_ids()) {
      const Set first = SetAt(t);
      const Bytes bytes = During(first, t);
      if (bytes > floor_) Raise(bytes, t, op);
      if (first.size() <= kMostTogether) order.emplace_back(bytes, t);
    }
    std::ranges::sort(order, std::greater<>());
    for (const auto& [bytes, t] : order) {
      if (visits_ > kMostVisits || IsLate(problem_)) break;
      Look(SetAt(t), t, op);
    }
    return floor_ + state_;
  }

 private:
  struct Entry {
    Bytes bytes;       // the most that has been needed on the way
    std::size_t left;  // ops that must have run
    Set set;
    bool is_open = false;  // the set is too large to be looked at: there may be a way
    bool operator>(const Entry& other) const {
      if (bytes != other.bytes) return bytes > other.bytes;
      if (left != other.left) return left > other.left;
      return set > other.set;
    }
  };

  void Raise(Bytes bytes, OpId t, OpId* op) {
    floor_ = bytes;
    if (op) *op = t;
  }

  // What is there when `t` first runs: its needs, and what was made, is wanted later and cannot be made again.
  Set SetAt(OpId t) {
    Set out;
    for (const StorageId s : workload_.needs[t]) {
      if (!workload_.IsState(s)) out.push_back(s);
    }
    if (lasting_at_ != t) {
      std::erase_if(lasting_, [&](StorageId s) { return !workload_.outlives[s] && workload_.uses[s].back() < t; });
      if (t < lasting_at_) lasting_.clear(), lasting_next_ = OpId(0);
      for (; lasting_next_ < t; ++lasting_next_) {
        for (const StorageId s : workload_.births[lasting_next_]) {
          const bool lasts = workload_.recipe[s].empty() || !problem_.limits.may_recompute;
          if (lasts && (workload_.outlives[s] || workload_.uses[s].back() >= t)) lasting_.push_back(s);
        }
      }
      lasting_at_ = t;
    }
    out.insert(out.end(), lasting_.begin(), lasting_.end());
    std::ranges::sort(out);
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  // The memory while `op` runs and makes the last of the set.
  Bytes During(const Set& set, OpId op) const {
    Bytes out = workload_.workspace[op];
    for (const StorageId s : set) out += workload_.bytes[s];
    for (const auto list : {workload_.needs[op], workload_.births[op]}) {
      for (const StorageId s : list) {
        if (!workload_.IsState(s) && !std::ranges::binary_search(set, s)) out += workload_.bytes[s];
      }
    }
    return out;
  }

  // Ops that must have run for all of the set to be there.
  std::size_t Behind(const Set& set) {
    ++count_;
    std::size_t out = 0;
    open_.clear();
    const auto see = [&](StorageId s) {
      if (workload_.IsState(s) || seen_[workload_.born[s]] == count_) return;
      seen_[workload_.born[s]] = count_;
      open_.push_back(workload_.born[s]);
    };
    for (const StorageId s : set) see(s);
    while (!open_.empty()) {
      const OpId op = open_.back();
      open_.pop_back();
      ++out;
      ++visits_;
      for (const StorageId s : workload_.needs[op]) see(s);
    }
    return out;
  }

  // Goes back from the set. Where all ways need more than the floor, the floor is what the least of them needs.
  void Look(const Set& first, OpId t, OpId* op) {
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    std::map<Set, Bytes> known = {{first, floor_}};
    queue.push({floor_, Behind(first), first});
    for (std::int64_t i = 0; i < kMostSets && visits_ < kMostVisits && !queue.empty(); ++i) {
      const Entry entry = queue.top();
      queue.pop();
      if (entry.bytes > floor_) Raise(entry.bytes, t, op);
      if (entry.set.empty() || entry.is_open) return;
      if (known[entry.set] < entry.bytes) continue;
      for (const StorageId last : entry.set) {
        const OpId maker = workload_.born[last];
        const bool runs_once = workload_.recipe[last].empty() || !problem_.limits.may_recompute;
        const auto begins_later = [&](StorageId s) { return workload_.born[s] > maker; };
        if (runs_once && std::ranges::any_of(entry.set, begins_later)) continue;
        Set next;
        for (const StorageId s : entry.set) {
          if (workload_.born[s] != maker) next.push_back(s);
        }
        for (const StorageId s : workload_.needs[maker]) {
          if (!workload_.IsState(s)) next.push_back(s);
        }
        std::ranges::sort(next);
        next.erase(std::unique(next.begin(), next.end()), next.end());
        const Bytes during = std::max(entry.bytes, During(entry.set, maker));
        const auto [place, is_new] = known.try_emplace(next, during);
        if (!is_new && place->second <= during) continue;
        place->second = during;
        const bool is_open = next.size() > kMostTogether;
        const std::size_t left = is_open ? 0 : Behind(next);
        queue.push({during, left, std::move(next), is_open});
      }
    }
  }

  const Problem& problem_;
  const sim::Workload& workload_;
  Bytes state_ = 0, floor_ = 0;
  std::int64_t visits_ = 0;
  IdVector<OpId, std::uint32_t> seen_;
  std::uint32_t count_ = 0;
  std::vector<OpId> open_;
  Set lasting_;
  OpId lasting_next_{0}, lasting_at_{0};
};

}  // namespace

Bytes FloorOfSets(const Problem& problem, OpId* op) {
  const bool is_looked_at = !problem.limits.may_swap && problem.workload->ops() <= kMostOps;
  return is_looked_at ? Lifting(problem).Run(op) : Floor(problem, op);
}

}  // namespace ebbtide::plan
