// Moves gathers of forward up: behind the ops that make what they read, behind the gather before them, and behind the
// last use of every storage of their stream that the host has let go of before it asked for them, as its memory is
// theirs. torch's fully_shard waits for the same: a gather for the copy out of the one before the last.
#include "parallel/execution_order.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "graph/collective.h"

namespace ebbtide::parallel {
namespace {

bool Moves(const Op& op) { return op.phase == Phase::kForward && StreamOf(op) == Stream::kGather; }

// By op that moves: the first place that it may take, in the old order. Others: their own.
std::vector<std::size_t> PlacesOf(const TrainingGraph& graph) {
  const std::size_t count = graph.storages.size();
  std::vector<std::size_t> written(count, 0);   // the first place behind the op that wrote it last, so far
  std::vector<std::size_t> last_use(count, 0);  // of the whole step, one past
  std::vector<bool> is_gathers(count, false);   // memory of the stream of gathers
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const auto* list : {&graph.ops[i].inputs, &graph.ops[i].outputs})
      for (const TensorId id : *list) last_use[graph.tensor(id).storage.index()] = i + 1;
  }
  std::vector<std::pair<std::size_t, std::size_t>> released;  // when the host lets go of it, and its last use
  std::vector<std::size_t> places(graph.ops.size());
  std::size_t before = 0;  // one past the place of the last that moves
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    places[i] = i;
    if (Moves(op)) {
      places[i] = before;
      for (const TensorId id : op.inputs) places[i] = std::max(places[i], written[graph.tensor(id).storage.index()]);
      for (const auto& [let_go, used] : released)
        if (let_go < i) places[i] = std::max(places[i], used);
      before = places[i];
    }
    for (const auto* list : {&op.outputs, &op.mutated})
      for (const TensorId id : *list) written[graph.tensor(id).storage.index()] = Moves(op) ? places[i] : i + 1;
    if (!Moves(op)) continue;
    for (const TensorId id : op.outputs) {
      const std::size_t s = graph.tensor(id).storage.index();
      if (is_gathers[s]) continue;
      is_gathers[s] = true;
      const OpId end = graph.storages[s].released_after;
      released.emplace_back(std::max(end.valid() ? end.index() + 1 : 0, last_use[s]) - 1, last_use[s]);
    }
  }
  return places;
}

}  // namespace

TrainingGraph InExecutionOrder(TrainingGraph graph) {
  if (std::ranges::none_of(graph.ops, Moves)) return graph;
  const std::vector<std::size_t> places = PlacesOf(graph);
  // Those that move to one place come before what stands there, in their own order.
  std::vector<std::size_t> order(graph.ops.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return std::pair(places[i], places[i] == i); });
  std::vector<std::size_t> moved_to(order.size());
  std::vector<Op> ops;
  ops.reserve(order.size());
  for (const std::size_t i : order) {
    moved_to[i] = ops.size();
    ops.push_back(std::move(graph.ops[i]));
  }
  graph.ops = std::move(ops);
  std::vector<std::size_t> last_use(graph.storages.size(), 0);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const auto* list : {&graph.ops[i].inputs, &graph.ops[i].outputs})
      for (const TensorId id : *list) last_use[graph.tensor(id).storage.index()] = i;
  }
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    OpId& released = graph.storages[s].released_after;
    if (!released.valid()) continue;
    released = OpId(moved_to[released.index()]);
    // The host's release came with a gather that now comes before the last use.
    if (released.index() <= last_use[s]) released = OpId();
  }
  return graph;
}

}  // namespace ebbtide::parallel
