// Names ops by kind and layer, storages by their own name or by what makes them.
#include "report/labels.h"

#include <fmt/format.h>

namespace ebbtide::report {

std::string OpLabel(const TrainingGraph& graph, OpId op) {
  const Op& that = graph.op(op);
  return that.layer.empty() ? that.kind : that.kind + " of " + that.layer;
}

std::string StorageLabel(const TrainingGraph& graph, const sim::Workload& workload, StorageId storage) {
  const std::string& name = graph.storage(storage).name;
  if (!name.empty()) return name;
  const OpId maker = workload.born[storage];
  return maker.valid() ? OpLabel(graph, maker) : fmt::format("storage {}", storage.value);
}

}  // namespace ebbtide::report
