// Finds the blocks by the numbers in their names, and their uses by going through the ops once.
#include "parallel/units.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace ebbtide::parallel {
namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

void Extend(OpId& begin, OpId& end, OpId op) {
  if (!begin.valid() || begin == end) begin = op;
  end = OpId(op.index() + 1);
}

}  // namespace

std::string BlockOf(const std::string& path) {
  for (std::size_t from = 0; from < path.size();) {
    const std::size_t dot = std::min(path.find('.', from), path.size());
    if (IsNumber(std::string_view(path).substr(from, dot - from)) && from > 0) return path.substr(0, dot);
    from = dot + 1;
  }
  return "";
}

Units FindUnits(const TrainingGraph& graph, bool adapters_apart) {
  return FindUnits(graph, adapters_apart, {0, graph.ops.size()});
}

Units FindUnits(const TrainingGraph& graph, bool adapters_apart, const Pass& pass) {
  Units out;
  std::unordered_map<std::string, std::size_t> by_name;
  const auto unit_named = [&](const std::string& name) {
    const auto [found, is_new] = by_name.try_emplace(name, out.units.size());
    if (is_new) out.units.emplace_back().name = name;
    return found->second;
  };
  std::unordered_map<std::string, StorageId> parameters;
  for (std::size_t i = 0; i < graph.storages.size(); ++i) {
    if (graph.storages[i].kind == StorageKind::kParameter) parameters.emplace(graph.storages[i].name, StorageId(i));
  }
  for (std::size_t i = 0; i < graph.storages.size(); ++i) {
    const Storage& storage = graph.storages[i];
    if (storage.kind != StorageKind::kGradient) continue;
    // Built-in models call it "fc.weight.grad", captures by the parameter's own name.
    const std::string suffix = storage.name.ends_with(".grad") ? ".grad" : "";
    const auto found = parameters.find(storage.name.substr(0, storage.name.size() - suffix.size()));
    if (found != parameters.end()) out.gradient_of.emplace(found->second, StorageId(i));
  }
  std::unordered_set<std::string> frozen_blocks;  // those with something frozen
  for (const auto& [name, storage] : parameters) {
    if (!out.gradient_of.contains(storage)) frozen_blocks.insert(BlockOf(name));
  }
  for (std::size_t i = 0; i < graph.storages.size(); ++i) {
    const Storage& storage = graph.storages[i];
    if (storage.kind != StorageKind::kParameter) continue;
    const bool trained = out.gradient_of.contains(StorageId(i));
    const std::string block = BlockOf(storage.name);
    const bool is_adapter = adapters_apart && trained && frozen_blocks.contains(block);
    const std::size_t unit = unit_named(is_adapter ? storage.name.substr(0, storage.name.rfind('.')) : block);
    out.units[unit].parameters.push_back(StorageId(i));
    out.units[unit].trained |= trained;
    out.unit_of.emplace(StorageId(i), unit);
  }
  std::unordered_map<std::string_view, decltype(by_name)::iterator> block_of_layer;
  std::string_view layer;
  auto block = by_name.end();  // of that layer
  for (std::size_t i = pass.begin; i < pass.end; ++i) {
    const Op& op = graph.ops[i];
    if (op.phase == Phase::kUpdate) continue;
    const auto touch = [&](Unit& unit) {
      const bool forward = op.phase == Phase::kForward;
      Extend(forward ? unit.forward_begin : unit.backward_begin, forward ? unit.forward_end : unit.backward_end,
             OpId(i));
    };
    if (i == pass.begin || op.layer != layer) {  // ops of a layer mostly follow each other
      layer = op.layer;
      const auto [found, is_new] = block_of_layer.try_emplace(op.layer, by_name.end());
      if (is_new) {
        if (const std::string name = BlockOf(op.layer + "."); !name.empty()) found->second = by_name.find(name);
      }
      block = found->second;
    }
    if (block != by_name.end()) touch(out.units[block->second]);
    for (const TensorId id : op.inputs) {
      if (graph.storage_of(id).kind != StorageKind::kParameter) continue;
      if (const auto found = out.unit_of.find(graph.tensor(id).storage); found != out.unit_of.end()) {
        touch(out.units[found->second]);
      }
    }
  }
  for (Unit& unit : out.units) {
    for (OpId* id : {&unit.forward_begin, &unit.forward_end, &unit.backward_begin, &unit.backward_end}) {
      if (!id->valid()) *id = OpId(0);
    }
  }
  return out;
}

}  // namespace ebbtide::parallel
