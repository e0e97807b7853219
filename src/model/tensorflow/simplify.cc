// Counts readers, then moves the parts of merged sums; what was a sum stays as a node that does nothing.
#include "model/tensorflow/simplify.h"

namespace ebbtide::model::tensorflow {

void MergeSums(Flat& flat) {
  std::vector<int> readers(flat.values.size());
  for (const FlatNode& node : flat.nodes) {
    for (const ValueId input : node.inputs) ++readers[static_cast<std::size_t>(input)];
  }
  for (const ValueId result : flat.results) ++readers[static_cast<std::size_t>(result)];
  std::size_t moved = 0;
  for (FlatNode& node : flat.nodes) {
    if (node.op != "AddN" || node.outputs.empty()) continue;
    std::vector<ValueId> parts;
    for (const ValueId input : node.inputs) {
      const int maker = flat.value(input).node;
      const bool merges = maker != kNone && flat.node(maker).op == "AddN" && &flat.node(maker) != &node &&
                          flat.node(maker).call == node.call && readers[static_cast<std::size_t>(input)] == 1 &&
                          moved < kMostFlatNodes && flat.value(input).shape == flat.value(node.outputs[0]).shape;
      if (!merges) {
        parts.push_back(input);
        continue;
      }
      FlatNode& part = flat.node(maker);
      moved += part.inputs.size();
      parts.insert(parts.end(), part.inputs.begin(), part.inputs.end());
      node.after.insert(node.after.end(), part.after.begin(), part.after.end());
      // Others may wait for it; it has nothing to do any more.
      part.op = "NoOp";
      part.inputs.clear();
      part.outputs.clear();
    }
    node.inputs = std::move(parts);
  }
}

}  // namespace ebbtide::model::tensorflow
