// Names from files are put in quotes where they could be mistaken.
#include "graph/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/json_text.h"
#include "graph/names.h"

namespace ebbtide {
namespace {

// As it is, where that cannot be mistaken for anything else.
std::string Shown(std::string_view name) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.' || c == ':' || c == '/'; };
  if (name.size() <= 60 && std::all_of(name.begin(), name.end(), plain)) return std::string(name);
  return Quoted(name);
}

std::string Place(std::string_view list, std::int32_t number, std::string_view first, std::string_view second) {
  std::string place = fmt::format("{}[{}]", list, number);
  if (first.empty() && second.empty()) return place;
  place += " (" + Shown(first);
  if (!first.empty() && !second.empty()) place += ", ";
  return place + Shown(second) + ")";
}

}  // namespace

std::string PlaceOf(const TrainingGraph& graph, OpId op) {
  return Place("ops", op.value, graph.op(op).kind, graph.op(op).layer);
}

std::string PlaceOf(const TrainingGraph& graph, StorageId storage) {
  return Place("storages", storage.value, Name(graph.storage(storage).kind), graph.storage(storage).name);
}

std::string PlaceOf(const TrainingGraph& graph, TensorId tensor) {
  return Place("tensors", tensor.value, graph.tensor(tensor).name, "");
}

}  // namespace ebbtide
