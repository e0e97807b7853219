// The planner goes through the ops once. A result takes the place of an input where the operator allows it and nobody
// else reads that input; else a free block of about its size; else a new one. A block grows to its largest tenant.
#include "estimate/mxnet_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>

namespace ebbtide::estimate {
namespace {

constexpr std::string_view kPrefix = "mxnet::";

// Result `output` may overwrite input `input`.
struct Pair {
  std::size_t input, output;
};

// What MXNet 1.9.1 registers for its operators. Results that are their input under another shape are views already.
const std::unordered_map<std::string_view, std::vector<Pair>>& InPlacePairs() {
  static const std::unordered_map<std::string_view, std::vector<Pair>> pairs = {
      {"Activation", {{0, 0}}},
      {"_backward_Activation", {{0, 0}}},
      {"LeakyReLU", {{0, 0}}},
      {"_backward_LeakyReLU", {{0, 0}}},
      {"relu", {{0, 0}}},
      {"_backward_relu", {{0, 0}}},
      {"sigmoid", {{0, 0}}},
      {"_backward_sigmoid", {{0, 0}}},
      {"tanh", {{0, 0}}},
      {"_backward_tanh", {{0, 0}}},
      {"clip", {{0, 0}}},
      {"softmax", {{0, 0}}},
      {"_backward_softmax", {{0, 0}}},
      {"elemwise_add", {{0, 0}, {1, 0}}},
      {"elemwise_sub", {{0, 0}, {1, 0}}},
      {"elemwise_mul", {{0, 0}, {1, 0}}},
      {"_backward_sub", {{0, 0}}},
      {"_backward_mul", {{0, 1}}},
      {"broadcast_add", {{0, 0}, {1, 0}}},
      {"broadcast_mul", {{0, 0}, {1, 0}}},
      {"_plus_scalar", {{0, 0}}},
      {"_mul_scalar", {{0, 0}}},
      {"_backward_mul_scalar", {{0, 0}}},
      {"_grad_add", {{0, 0}}},
      {"add_n", {{0, 0}}},
      {"Dropout", {{0, 0}}},
      {"_backward_Dropout", {{0, 0}}},
      {"SoftmaxOutput", {{0, 0}}},
      {"_backward_SoftmaxOutput", {{0, 0}}},
      {"_backward_FullyConnected", {{1, 0}}},
  };
  return pairs;
}

class Planner {
 public:
  Planner(const TrainingGraph& graph, const MxnetPlanOptions& options)
      : graph_(graph), range_(options.match_range), readers_(graph.tensors.size()), is_placed_(graph.storages.size()) {
    plan_.pool_of.assign(graph.storages.size(), MxnetPlan::kExternal);
    for (const Op& op : graph.ops) {
      if (op.phase == Phase::kUpdate) continue;  // no part of the executor
      for (const TensorId id : op.inputs) ++readers_[id.index()];
    }
    for (const TensorId id : graph.outputs) ++readers_[id.index()];
  }

  MxnetPlan Plan() {
    for (const Op& op : graph_.ops) {
      if (op.phase != Phase::kUpdate) Place(op);
    }
    return std::move(plan_);
  }

 private:
  StorageId StorageOf(TensorId id) const { return graph_.tensor(id).storage; }
  int PoolOf(TensorId id) const { return plan_.pool_of[StorageOf(id).index()]; }
  bool IsExternal(TensorId id) const {
    const StorageKind kind = graph_.storage_of(id).kind;
    return IsPersistent(kind) || kind == StorageKind::kGradient;
  }

  void Place(const Op& op) {
    Overwrite(op);
    std::vector<TensorId> results;
    for (const TensorId id : op.outputs) {
      if (IsExternal(id)) continue;
      if (!is_placed_[StorageOf(id).index()]) {
        results.push_back(id);
      } else if (!std::count(overwriting_.begin(), overwriting_.end(), id)) {
        held_[static_cast<std::size_t>(PoolOf(id))] += readers_[id.index()];  // a view of what is placed
      }
    }
    std::stable_sort(results.begin(), results.end(), [&](TensorId a, TensorId b) { return Size(a) < Size(b); });
    for (auto id = results.rbegin(); id != results.rend(); ++id) {
      const int pool = Request(Size(*id));
      held_[static_cast<std::size_t>(pool)] = readers_[id->index()];
      Assign(*id, pool);
    }
    for (const TensorId id : op.inputs) {
      if (PoolOf(id) != MxnetPlan::kExternal && --held_[static_cast<std::size_t>(PoolOf(id))] == 0) Release(PoolOf(id));
    }
    for (const TensorId id : op.outputs) {
      if (PoolOf(id) != MxnetPlan::kExternal && held_[static_cast<std::size_t>(PoolOf(id))] == 0 &&
          readers_[id.index()] == 0) {
        Release(PoolOf(id));
      }
    }
  }

  void Overwrite(const Op& op) {
    overwriting_.clear();
    const auto pairs =
        InPlacePairs().find(std::string_view(op.schema).substr(std::min(kPrefix.size(), op.schema.size())));
    if (pairs == InPlacePairs().end()) return;
    std::vector<std::size_t> taken;
    for (const Pair& pair : pairs->second) {
      if (pair.input >= op.inputs.size() || pair.output >= op.outputs.size()) continue;
      const TensorId input = op.inputs[pair.input], output = op.outputs[pair.output];
      const int pool = PoolOf(input);
      if (std::count(taken.begin(), taken.end(), pair.input) || IsExternal(output) || pool == MxnetPlan::kExternal)
        continue;
      if (is_placed_[StorageOf(output).index()] || held_[static_cast<std::size_t>(pool)] != 1) continue;
      if (readers_[output.index()] == 0 || Size(input) != Size(output)) continue;
      taken.push_back(pair.input);
      overwriting_.push_back(output);
      held_[static_cast<std::size_t>(pool)] += readers_[output.index()];
      Assign(output, pool);
    }
  }

  Bytes Size(TensorId id) const { return graph_.storage_of(id).bytes; }
  void Assign(TensorId id, int pool) {
    plan_.pool_of[StorageOf(id).index()] = pool;
    is_placed_[StorageOf(id).index()] = true;
  }

  // The smallest free block that is large enough, else the largest that is not; the first to be freed among equals of
  // the former, the last among those of the latter.
  int Request(Bytes size) {
    const auto larger = free_.lower_bound(size);
    if (larger != free_.end() && larger->first / range_ <= size) return Take(larger, size);
    if (larger != free_.begin() && std::prev(larger)->first >= size / range_) return Take(std::prev(larger), size);
    plan_.pools.push_back(size);
    held_.push_back(0);
    return static_cast<int>(plan_.pools.size()) - 1;
  }
  int Take(std::multimap<Bytes, int>::iterator block, Bytes size) {
    const int pool = block->second;
    free_.erase(block);
    Bytes& bytes = plan_.pools[static_cast<std::size_t>(pool)];
    bytes = std::max(bytes, size);
    return pool;
  }
  void Release(int pool) { free_.emplace(plan_.pools[static_cast<std::size_t>(pool)], pool); }

  const TrainingGraph& graph_;
  const std::int64_t range_;
  std::vector<std::int64_t> readers_;  // of each tensor, over the whole graph
  std::vector<bool> is_placed_;        // by storage
  std::vector<std::int64_t> held_;     // by block: reads to come of what lies in it
  std::vector<TensorId> overwriting_;  // results of the present op that took an input's place
  std::multimap<Bytes, int> free_;
  MxnetPlan plan_;
};

}  // namespace

Bytes MxnetPlan::total() const { return std::accumulate(pools.begin(), pools.end(), Bytes{0}); }

MxnetPlan PlanMxnet(const TrainingGraph& graph, const MxnetPlanOptions& options) {
  return Planner(graph, options).Plan();
}

}  // namespace ebbtide::estimate
