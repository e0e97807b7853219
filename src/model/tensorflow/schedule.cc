// Kahn's algorithm with a queue.
#include "model/tensorflow/schedule.h"

namespace ebbtide::model::tensorflow {

std::vector<int> ExecutionOrder(const Flat& flat) {
  std::vector<int> waits(flat.nodes.size());
  std::vector<std::vector<int>> readers(flat.nodes.size());
  for (std::size_t i = 0; i < flat.nodes.size(); ++i) {
    const FlatNode& node = flat.nodes[i];
    const auto wait_for = [&](int before) {
      if (before == kNone) return;
      ++waits[i];
      readers[static_cast<std::size_t>(before)].push_back(static_cast<int>(i));
    };
    for (const ValueId input : node.inputs) wait_for(flat.value(input).node);
    for (const int before : node.after) wait_for(before);
  }
  std::vector<int> order;
  for (std::size_t i = 0; i < flat.nodes.size(); ++i) {
    if (waits[i] == 0) order.push_back(static_cast<int>(i));
  }
  for (std::size_t next = 0; next < order.size(); ++next) {
    for (const int reader : readers[static_cast<std::size_t>(order[next])]) {
      if (--waits[static_cast<std::size_t>(reader)] == 0) order.push_back(reader);
    }
  }
  return order;
}

}  // namespace ebbtide::model::tensorflow
