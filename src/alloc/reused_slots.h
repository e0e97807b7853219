// Nodes that are known by their number in a vector, where the numbers of those that are gone are given out again.
#pragma once

#include <vector>

namespace ebbtide::alloc {

// The number of a node that is as new. `unused`: numbers that were given back; the last one goes first.
template <class Node, class Index>
Index TakeSlot(std::vector<Node>& nodes, std::vector<Index>& unused) {
  if (unused.empty()) {
    nodes.emplace_back();
    return static_cast<Index>(nodes.size() - 1);
  }
  const Index index = unused.back();
  unused.pop_back();
  nodes[static_cast<std::size_t>(index)] = Node();
  return index;
}

}  // namespace ebbtide::alloc
