// Begins with what frees most at each moment, or with the graph's own order, and moves single ops where that pays.
#include "plan/find_order.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "graph/reorder.h"
#include "plan/problem.h"
#include "plan/search/position.h"

namespace ebbtide::plan {
namespace {

constexpr double kSharpness = 8;  // the higher, the more the fullest moments count
constexpr std::int64_t kMoves = 20'000'000, kLeastMoves = 200, kMostMoves = 40'000;  // in all, by ops
// What an op that comes so many places early has to free, in shares of the mean storage.
constexpr std::array kPatience = {0.0, 0.01, 0.1};

class Ordering {
 public:
  Ordering(const TrainingGraph& graph, const sim::Workload& workload)
      : workload_(workload),
        before_(Predecessors(graph)),
        behind_(graph.ops.size()),
        segments_(Segments(graph)),
        holders_(workload.storages()) {
    for (std::size_t i = 0; i < before_.size(); ++i) {
      for (const OpId earlier : before_[i]) behind_[earlier.index()].emplace_back(i);
    }
    for (const StorageId s : workload.storage_ids()) {
      if (workload.IsState(s)) continue;
      const auto uses = workload.uses[s];
      holders_[s].assign(uses.begin(), uses.end());
      const OpId last = workload.last_reference[s];
      if (last.valid() && last != uses.back()) holders_[s].push_back(last);
      total_ += static_cast<double>(workload.bytes[s]);
    }
  }

  std::vector<OpId> Run() {
    std::vector<OpId> own;
    for (const OpId op : workload_.op_ids()) own.push_back(op);
    std::vector<OpId> best = own;
    const double plain = Cost(own);
    double least = plain;
    for (const double patience : kPatience) {
      std::vector<OpId> order = Listed(patience);
      if (const double cost = Cost(order); cost < least) least = cost, best = std::move(order);
    }
    least = Improve(best, least);
    return least < plain ? best : std::vector<OpId>{};
  }

 private:
  // Of all that lives at each place, the fullest most of all; over that of a step that always has everything.
  double Cost(const std::vector<OpId>& order) {
    place_.resize(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) place_[order[i].index()] = i;
    change_.assign(order.size() + 1, 0);
    for (const StorageId s : workload_.storage_ids()) {
      if (holders_[s].empty()) continue;
      std::size_t last = 0;
      for (const OpId op : holders_[s]) last = std::max(last, place_[op.index()]);
      change_[place_[workload_.born[s].index()]] += workload_.bytes[s];
      if (!workload_.outlives[s]) change_[last + 1] -= workload_.bytes[s];
    }
    double out = 0;
    Bytes live = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      live += change_[i];
      out += std::pow(static_cast<double>(live + workload_.workspace[order[i]]) / total_, kSharpness);
    }
    return out;
  }

  // At each place, of the ops that may come: the one that leaves least behind.
  std::vector<OpId> Listed(double patience) {
    std::vector<std::size_t> missing(before_.size());
    for (std::size_t i = 0; i < before_.size(); ++i) missing[i] = before_[i].size();
    IdVector<StorageId, std::size_t> left(workload_.storages(), 0);
    for (const StorageId s : workload_.storage_ids()) left[s] = holders_[s].size();
    std::vector<std::vector<StorageId>> held(before_.size());
    for (const StorageId s : workload_.storage_ids()) {
      for (const OpId op : holders_[s]) held[op.index()].push_back(s);
    }
    const double mean = total_ / static_cast<double>(std::max<std::size_t>(workload_.storages(), 1));
    std::vector<OpId> out, ready;
    for (std::size_t k = 0; k + 1 < segments_.size(); ++k) {
      for (OpId op = segments_[k]; op < segments_[k + 1]; ++op) {
        if (missing[op.index()] == 0) ready.push_back(op);
      }
      while (!ready.empty()) {
        std::pair<double, OpId> first{std::numeric_limits<double>::infinity(), OpId()};
        for (const OpId op : ready) {
          double more = 0;
          for (const StorageId s : workload_.births[op]) more += static_cast<double>(workload_.bytes[s]);
          for (const StorageId s : held[op.index()]) {
            if (left[s] == 1 && !workload_.outlives[s]) more -= static_cast<double>(workload_.bytes[s]);
          }
          const double early = static_cast<double>(op.index()) - static_cast<double>(out.size());
          first = std::min(first, {more + patience * mean * early, op});
        }
        const OpId op = first.second;
        ready.erase(std::ranges::find(ready, op));
        out.push_back(op);
        for (const StorageId s : held[op.index()]) --left[s];
        for (const OpId later : behind_[op.index()]) {
          if (--missing[later.index()] == 0 && later < segments_[k + 1]) ready.push_back(later);
        }
      }
    }
    return out;
  }

  double Improve(std::vector<OpId>& order, double cost) {
    const auto ops = static_cast<std::int64_t>(std::max<std::size_t>(order.size(), 1));
    const std::int64_t moves = std::clamp(kMoves / ops, kLeastMoves, kMostMoves);
    Random random(0);
    for (std::int64_t i = 0; i < moves && order.size() > 1; ++i) {
      Cost(order);  // the places
      const std::size_t from = random.Below(order.size());
      const OpId op = order[from];
      const auto end = std::ranges::upper_bound(segments_, op);
      std::size_t low = std::prev(end)->index(), high = end->index() - 1;
      for (const OpId earlier : before_[op.index()]) low = std::max(low, place_[earlier.index()] + 1);
      for (const OpId later : behind_[op.index()]) high = std::min(high, place_[later.index()] - 1);
      if (low >= high) continue;
      const std::size_t to = low + random.Below(high - low + 1);
      Move(order, from, to);
      const double moved = Cost(order);
      if (moved <= cost) {
        cost = moved;
      } else {
        Move(order, to, from);
      }
    }
    return cost;
  }

  static void Move(std::vector<OpId>& order, std::size_t from, std::size_t to) {
    const auto at = [&](std::size_t i) { return order.begin() + static_cast<std::ptrdiff_t>(i); };
    if (from < to) {
      std::rotate(at(from), at(from + 1), at(to + 1));
    } else {
      std::rotate(at(to), at(from), at(from + 1));
    }
  }

  const sim::Workload& workload_;
  const std::vector<std::vector<OpId>> before_;
  std::vector<std::vector<OpId>> behind_;
  const std::vector<OpId> segments_;
  IdVector<StorageId, std::vector<OpId>> holders_;  // ops while which, and between which, it lives; none of state
  double total_ = 1;
  std::vector<std::size_t> place_;  // by op
  std::vector<Bytes> change_;       // by place, of what lives
};

}  // namespace

std::vector<OpId> FindOrder(const TrainingGraph& graph, const sim::Workload& workload) {
  if (graph.ops.size() > kLargeGraph) return {};
  return Ordering(graph, workload).Run();
}

}  // namespace ebbtide::plan
