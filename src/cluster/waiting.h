// Jobs that wait, by kind. Those of a kind are alike, so where the first finds no place, no other of its kind does, and
// it is asked for again only at nodes that something has left since.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace ebbtide::cluster {

class Waiting {
 public:
  // Where to look for a place: everywhere, or at the nodes left since the last look.
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  explicit Waiting(std::size_t kinds) : queues_(kinds), looked_(kinds, kNever) {}

  // From now on by these ranks of all jobs, the lowest first; and all are looked for anew.
  void Reorder(std::shared_ptr<const std::vector<std::size_t>> ranks) {
    ranks_ = std::move(ranks);
    std::vector<std::set<std::pair<std::size_t, std::size_t>>> before(queues_.size());
    before.swap(queues_);
    order_.clear();
    for (std::size_t kind = 0; kind < before.size(); ++kind) {
      for (const auto& [rank, job] : before[kind]) Add(kind, job);
    }
    looked_.assign(looked_.size(), kNever);
  }

  void Add(std::size_t kind, std::size_t job) {
    std::set<std::pair<std::size_t, std::size_t>>& queue = queues_[kind];
    if (queue.empty()) looked_[kind] = kNever;
    if (!queue.empty()) order_.erase({queue.begin()->first, kind});
    queue.emplace((*ranks_)[job], job);
    order_.emplace(queue.begin()->first, kind);
  }
  void Pop(std::size_t kind) {
    std::set<std::pair<std::size_t, std::size_t>>& queue = queues_[kind];
    order_.erase({queue.begin()->first, kind});
    queue.erase(queue.begin());
    if (!queue.empty()) order_.emplace(queue.begin()->first, kind);
  }
  std::size_t First(std::size_t kind) const { return queues_[kind].begin()->second; }
  // (rank, job) of all of the kind, the lowest first.
  const std::set<std::pair<std::size_t, std::size_t>>& Of(std::size_t kind) const { return queues_[kind]; }
  bool empty() const { return order_.empty(); }
  // (rank, kind) of the first of each kind, the lowest first.
  const std::set<std::pair<std::size_t, std::size_t>>& order() const { return order_; }
  std::size_t count() const {
    std::size_t sum = 0;
    for (const auto& queue : queues_) sum += queue.size();
    return sum;
  }

  // How many of the nodes that were left have been looked at for the kind.
  std::size_t looked(std::size_t kind) const { return looked_[kind]; }
  void Looked(std::size_t kind, std::size_t nodes) { looked_[kind] = nodes; }

 private:
  std::shared_ptr<const std::vector<std::size_t>> ranks_;
  std::vector<std::set<std::pair<std::size_t, std::size_t>>> queues_;  // (rank, job)
  std::vector<std::size_t> looked_;
  std::set<std::pair<std::size_t, std::size_t>> order_;
};

}  // namespace ebbtide::cluster
