// Depth-first search over what ops need, with a stack of its own.
#include "graph/cycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/place.h"

namespace ebbtide {
namespace {

// "ops[3] (add) needs ops[5] (mul), which needs ops[3] (add)". Each op of `cycle` needs the next, the last the first.
std::string Describe(const TrainingGraph& graph, std::span<const OpId> cycle) {
  constexpr std::size_t kMostShown = 6;
  std::string text = PlaceOf(graph, cycle[0]);
  for (std::size_t i = 1; i <= cycle.size(); ++i) {
    if (i == kMostShown && cycle.size() > kMostShown) {
      text += fmt::format(", ... ({} more)", cycle.size() - i);
      i = cycle.size();
    }
    text += (i == 1 ? " needs " : ", which needs ") + PlaceOf(graph, cycle[i % cycle.size()]);
  }
  return text;
}

}  // namespace

Status CheckNoCycle(const TrainingGraph& graph, std::span<const OpId> yielder) {
  enum class State : std::uint8_t { kNew, kOnPath, kDone };
  std::vector<State> state(graph.ops.size(), State::kNew);
  std::vector<OpId> path;               // each op needs the next
  std::vector<std::size_t> next_input;  // of each op on the path
  for (std::size_t root = 0; root < graph.ops.size(); ++root) {
    if (state[root] != State::kNew) continue;
    path.assign(1, OpId(root));
    next_input.assign(1, 0);
    state[root] = State::kOnPath;
    while (!path.empty()) {
      const Op& op = graph.op(path.back());
      if (next_input.back() == op.inputs.size()) {
        state[path.back().index()] = State::kDone;
        path.pop_back();
        next_input.pop_back();
        continue;
      }
      const OpId needed = yielder[op.inputs[next_input.back()++].index()];
      if (!needed.valid() || state[needed.index()] == State::kDone) continue;
      if (state[needed.index()] == State::kOnPath) {
        const auto begin = std::find(path.begin(), path.end(), needed);
        const std::span<const OpId> cycle(begin, path.end());
        return Fail("cycle of {} op{}: {}", cycle.size(), cycle.size() == 1 ? "" : "s", Describe(graph, cycle));
      }
      state[needed.index()] = State::kOnPath;
      path.push_back(needed);
      next_input.push_back(0);
    }
  }
  return {};
}

}  // namespace ebbtide
