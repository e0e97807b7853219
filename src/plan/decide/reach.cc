// Best-first search over sets of storages, towards what is there.
#include "plan/decide/reach.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "plan/search/position.h"

namespace ebbtide::plan {
namespace {

using Bits = std::vector<std::uint64_t>;

bool Has(const Bits& bits, std::size_t i) { return (bits[i / 64] >> (i % 64) & 1) != 0; }
void Put(Bits& bits, std::size_t i) { bits[i / 64] |= std::uint64_t{1} << (i % 64); }
void Take(Bits& bits, std::size_t i) { bits[i / 64] &= ~(std::uint64_t{1} << (i % 64)); }

struct Hash {
  std::size_t operator()(const Bits& bits) const {
    std::uint64_t out = 0;
    for (const std::uint64_t word : bits) out = (out ^ word) * 0x9e3779b97f4a7c15U, out ^= out >> 29;
    return static_cast<std::size_t>(out);
  }
};

template <class Visit>
void ForEach(const Bits& bits, const Visit& visit) {
  for (std::size_t w = 0; w < bits.size(); ++w) {
    for (std::uint64_t left = bits[w]; left != 0; left &= left - 1)
      visit(w * 64 + static_cast<std::size_t>(__builtin_ctzll(left)));
  }
}

constexpr double kHaste = 2;                // the weight of what is left to do over what was done
constexpr std::size_t kMostMissing = 2000;  // units that may have to run again for one set

class Reaching {
 public:
  Reaching(const Problem& problem, const Units& units, const IdVector<StorageId, bool>& there,
           const ReachOptions& options)
      : workload_(*problem.workload),
        units_(units),
        there_(there),
        options_(options),
        storage_number_(workload_.storages(), kNone),
        unit_number_(units.units.size(), kNone) {}

  std::int64_t found() const { return static_cast<std::int64_t>(states_.size()); }

  std::optional<Reached> Run(std::span<const StorageId> wanted) {
    if (!Collect(wanted) || !Link()) return std::nullopt;
    Bits first(Words(storages_.size()), 0);
    Bytes bytes = 0;
    for (const StorageId s : wanted) {
      if (workload_.IsState(s) || Has(first, storage_number_[s])) continue;
      Put(first, storage_number_[s]);
      bytes += workload_.bytes[s];
    }
    const Nanos left = LeftFor(first);
    Offer({.set = std::move(first), .bytes = bytes, .spent = 0, .left = left, .from = kNone, .node = kNone});
    return options_.beam > 0 ? InBreadth() : BestFirst();
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  struct Node {  // a unit that may have to run
    UnitId unit;
    Nanos time = 0;
    Bytes scratch = 0;
    std::vector<std::size_t> needs, makes;  // numbers of storages
    std::vector<std::size_t> parents;       // nodes that make what it needs
    Bits behind;                            // nodes that have to run for it
  };
  struct State {
    Bits set;         // of storages that must be there
    Bytes bytes = 0;  // of the set
    Nanos spent = 0;  // by the runs behind it
    Nanos left = 0;   // of units that have to run before it at least
    std::size_t from = kNone, node = kNone;
  };
  struct Entry {
    double cost;
    Nanos left;
    std::size_t state;
    bool operator<(const Entry& other) const {
      if (cost != other.cost) return cost > other.cost;
      if (left != other.left) return left > other.left;
      return state < other.state;
    }
  };

  static std::size_t Words(std::size_t bits) { return (bits + 63) / 64; }

  std::size_t NumberOf(StorageId s) {
    if (storage_number_[s] == kNone) {
      storage_number_[s] = storages_.size();
      storages_.push_back(s);
    }
    return storage_number_[s];
  }

  // All that is missing, with what it is made from. False: something cannot be made now, or it is too much.
  bool Collect(std::span<const StorageId> wanted) {
    std::vector<StorageId> open;
    const auto see = [&](StorageId s) {
      if (workload_.IsState(s) || storage_number_[s] != kNone) return;
      NumberOf(s);
      if (!there_[s] || options_.may_drop) open.push_back(s);
    };
    for (const StorageId s : wanted) see(s);
    while (!open.empty()) {
      const StorageId s = open.back();
      open.pop_back();
      const UnitId unit = units_.of[s];
      if (!unit.valid() || !MayRun(units_.units[unit])) {
        if (there_[s]) continue;
        return false;
      }
      const Unit& described = units_.units[unit];
      if (unit_number_[unit] != kNone) continue;
      unit_number_[unit] = nodes_.size();
      if (nodes_.size() >= kMostMissing) return false;
      Node& node = nodes_.emplace_back();
      node.unit = unit;
      const auto part = std::prev(std::ranges::lower_bound(described.parts, options_.stage, {}, &Unit::Part::op));
      node.time = std::max<Nanos>(part->time, 1);
      node.scratch = part->scratch;
      for (const Unit::Need& need : described.needs) {
        if (need.since < options_.stage) see(need.storage);
      }
    }
    return true;
  }

  std::optional<Reached> BestFirst() {
    for (std::int64_t i = 0; i < options_.most_sets && !queue_.empty(); ++i) {
      const std::size_t at = queue_.top().state;
      queue_.pop();
      if (states_[at].left == 0) return Path(at);
      Expand(at);
    }
    return std::nullopt;
  }

  // Run by run, with the sets that have little left to do and take little memory.
  std::optional<Reached> InBreadth() {
    if (states_[0].left == 0) return Path(0);
    const double left = 1 / static_cast<double>(states_[0].left),
                 room = options_.thrift / static_cast<double>(options_.room);
    Random random(options_.seed);
    std::vector<std::size_t> layer = {0};
    for (std::size_t depth = 0; depth < 3 * nodes_.size() && !layer.empty() && found() < options_.most_sets; ++depth) {
      const std::size_t first = states_.size();
      for (const std::size_t at : layer) Expand(at);
      std::vector<std::pair<double, std::size_t>> order;
      for (std::size_t at = first; at < states_.size(); ++at) {
        if (states_[at].left == 0) return Path(at);
        const double cost =
            static_cast<double>(states_[at].left) * left + static_cast<double>(states_[at].bytes) * room;
        order.emplace_back(cost * (1 + options_.luck * random.Uniform()), at);
      }
      const std::size_t kept = std::min(order.size(), options_.beam);
      std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(kept));
      layer.clear();
      for (std::size_t i = 0; i < kept; ++i) layer.push_back(order[i].second);
    }
    return std::nullopt;
  }

  bool MayRun(const Unit& unit) const { return unit.maker() < options_.stage && options_.stage <= unit.last_stage; }

  // What each needs and makes, and all that has to run before it. False: some would have to run before themselves.
  bool Link() {
    for (Node& node : nodes_) {
      const Unit& described = units_.units[node.unit];
      for (const Unit::Need& need : described.needs) {
        if (need.since >= options_.stage) continue;
        node.needs.push_back(storage_number_[need.storage]);
        if (!there_[need.storage] && !workload_.IsState(need.storage))
          node.parents.push_back(unit_number_[units_.of[need.storage]]);
      }
      for (const StorageId s : described.returns) node.makes.push_back(NumberOf(s));
    }
    // Parents first. They are not always made first: a unit whose later part changes what its maker made may need what
    // was made in between.
    enum class Seen : std::uint8_t { kNo, kOpen, kDone };
    std::vector<Seen> seen(nodes_.size(), Seen::kNo);
    std::vector<std::size_t> open;
    for (std::size_t first = 0; first < nodes_.size(); ++first) {
      if (seen[first] == Seen::kNo) open.push_back(first);
      while (!open.empty()) {
        const std::size_t i = open.back();
        if (seen[i] == Seen::kNo) {
          seen[i] = Seen::kOpen;
          for (const std::size_t parent : nodes_[i].parents) {
            if (seen[parent] == Seen::kOpen) return false;
            if (seen[parent] == Seen::kNo) open.push_back(parent);
          }
          continue;
        }
        open.pop_back();
        if (seen[i] == Seen::kDone) continue;
        seen[i] = Seen::kDone;
        Bits& behind = nodes_[i].behind;
        behind.assign(Words(nodes_.size()), 0);
        for (const std::size_t parent : nodes_[i].parents) {
          Put(behind, parent);
          for (std::size_t w = 0; w < behind.size(); ++w) behind[w] |= nodes_[parent].behind[w];
        }
      }
    }
    return true;
  }

  bool IsMissing(std::size_t number) const { return !there_[storages_[number]]; }
  // None: what is there and cannot be made again.
  std::size_t MakerOf(std::size_t number) const {
    const UnitId unit = units_.of[storages_[number]];
    return unit.valid() ? unit_number_[unit] : kNone;
  }

  // The time of all units that have to run at least once.
  Nanos LeftFor(const Bits& set) const {
    Bits all(Words(nodes_.size()), 0);
    ForEach(set, [&](std::size_t number) {
      if (!IsMissing(number)) return;
      const std::size_t maker = MakerOf(number);
      Put(all, maker);
      for (std::size_t w = 0; w < all.size(); ++w) all[w] |= nodes_[maker].behind[w];
    });
    Nanos out = 0;
    ForEach(all, [&](std::size_t i) { out += nodes_[i].time; });
    return out;
  }

  void Offer(State state) {
    const auto [known, is_new] = best_.try_emplace(state.set, state.spent);
    if (!is_new && known->second <= state.spent) return;
    known->second = state.spent;
    if (options_.beam == 0)
      queue_.push(
          {static_cast<double>(state.spent) + kHaste * static_cast<double>(state.left), state.left, states_.size()});
    states_.push_back(std::move(state));
  }

  void Expand(std::size_t at) {
    const State state = states_[at];
    if (best_[state.set] < state.spent) return;
    std::vector<std::size_t> makers;
    ForEach(state.set, [&](std::size_t number) {
      const bool may_be_made = IsMissing(number) || options_.may_drop;
      if (may_be_made && MakerOf(number) != kNone) makers.push_back(MakerOf(number));
    });
    std::ranges::sort(makers);
    makers.erase(std::unique(makers.begin(), makers.end()), makers.end());
    for (const std::size_t i : makers) {
      const Node& node = nodes_[i];
      State next{
          .set = state.set, .bytes = state.bytes, .spent = state.spent, .left = state.left, .from = at, .node = i};
      Bytes during = state.bytes + node.scratch;
      for (const std::size_t number : node.makes) {
        if (!Has(next.set, number)) {
          during += workload_.bytes[storages_[number]];
        } else if (IsMissing(number) || options_.may_drop) {
          Take(next.set, number);
          next.bytes -= workload_.bytes[storages_[number]];
        }
      }
      for (const std::size_t number : node.needs) {
        if (Has(next.set, number)) continue;
        Put(next.set, number);
        next.bytes += workload_.bytes[storages_[number]];
        if (!Has(state.set, number)) during += workload_.bytes[storages_[number]];
      }
      if (during > options_.room) continue;
      next.spent += node.time;
      next.left = options_.may_drop ? LeftFor(next.set) : next.left - (IsBehind(next.set, i) ? 0 : node.time);
      Offer(std::move(next));
    }
  }

  // Whether others of the set are made from what the node makes: then it has to run once more, before.
  bool IsBehind(const Bits& set, std::size_t node) const {
    bool out = false;
    ForEach(set, [&](std::size_t number) {
      if (out || !IsMissing(number)) return;
      const std::size_t maker = MakerOf(number);
      out = maker == node || Has(nodes_[maker].behind, node);
    });
    return out;
  }

  Reached Path(std::size_t at) const {
    Reached out;
    for (; states_[at].from != kNone; at = states_[at].from) {
      Reached::Step step{.unit = nodes_[states_[at].node].unit, .needed = {}};
      ForEach(states_[states_[at].from].set, [&](std::size_t number) { step.needed.push_back(storages_[number]); });
      out.steps.push_back(std::move(step));
    }
    return out;
  }

  const sim::Workload& workload_;
  const Units& units_;
  const IdVector<StorageId, bool>& there_;
  const ReachOptions& options_;
  IdVector<StorageId, std::size_t> storage_number_;
  IdVector<UnitId, std::size_t> unit_number_;
  std::vector<StorageId> storages_;
  std::vector<Node> nodes_;
  std::vector<State> states_;
  std::unordered_map<Bits, Nanos, Hash> best_;
  std::priority_queue<Entry> queue_;
};

}  // namespace

std::optional<Reached> Reach(const Problem& problem, const Units& units, const IdVector<StorageId, bool>& there,
                             std::span<const StorageId> wanted, const ReachOptions& options, std::int64_t* found) {
  Reaching reaching(problem, units, there, options);
  std::optional<Reached> out = reaching.Run(wanted);
  if (found) *found += reaching.found();
  return out;
}

}  // namespace ebbtide::plan
