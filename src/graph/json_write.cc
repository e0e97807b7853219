// From a TrainingGraph to its canonical text; see docs/graph-format.md for the order of the keys.
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <utility>
#include <variant>

#include "base/file.h"
#include "base/json_text.h"
#include "graph/check.h"
#include "graph/head.h"
#include "graph/json.h"
#include "graph/names.h"
#include "graph/shape.h"

namespace ebbtide {
namespace {

// One object on one line: {"key": value, ...}. Keys of default values are left out by the callers.
class ObjectText {
 public:
  explicit ObjectText(std::string& out) : out_(out) { out_ += '{'; }
  void Close() { out_ += '}'; }

  // The key alone; the caller appends the value.
  std::string& Key(std::string_view key) {
    if (!std::exchange(first_, false)) out_ += ", ";
    AppendJsonString(out_, key);
    out_ += ": ";
    return out_;
  }
  void Text(std::string_view key, std::string_view value) { AppendJsonString(Key(key), value); }
  void Integer(std::string_view key, std::int64_t value) { AppendInteger(Key(key), value); }
  void TextIfAny(std::string_view key, std::string_view value) {
    if (!value.empty()) Text(key, value);
  }
  void IntegerIfAny(std::string_view key, std::int64_t value) {
    if (value != 0) Integer(key, value);
  }

 private:
  std::string& out_;
  bool first_ = true;
};

template <class List, class AppendItem>
void AppendList(std::string& out, const List& list, AppendItem append_item) {
  out += '[';
  bool first = true;
  for (const auto& item : list) {
    if (!std::exchange(first, false)) out += ", ";
    append_item(out, item);
  }
  out += ']';
}

void AppendDims(std::string& out, const Dims& dims) { AppendList(out, dims, AppendInteger); }

template <class IdType>
void AppendId(std::string& out, IdType id) {
  AppendInteger(out, id.value);
}

void AppendTensorIds(std::string& out, const std::vector<TensorId>& ids) { AppendList(out, ids, AppendId<TensorId>); }

void AppendIdOrNull(std::string& out, TensorId id) { id.valid() ? AppendId(out, id) : void(out += "null"); }

void AppendBool(std::string& out, bool value) { out += value ? "true" : "false"; }

std::string_view NameOfSpecial(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

void AppendFloat(std::string& out, double value) {
  if (std::isfinite(value)) return AppendJsonDouble(out, value);
  ObjectText object(out);
  object.Text("float", NameOfSpecial(value));
  object.Close();
}

void AppendFloatOrSpecial(std::string& out, double value) {
  std::isfinite(value) ? AppendJsonDouble(out, value) : AppendJsonString(out, NameOfSpecial(value));
}

// One function per alternative of Value.
struct ValueText {
  std::string& out;

  void operator()(std::monostate) const { out += "null"; }
  void operator()(bool value) const { AppendBool(out, value); }
  void operator()(std::int64_t value) const { AppendInteger(out, value); }
  void operator()(double value) const { AppendFloat(out, value); }
  void operator()(const std::string& value) const { AppendJsonString(out, value); }
  void operator()(const Dims& value) const { AppendDims(out, value); }
  void operator()(const std::vector<double>& value) const {
    bool plain = !value.empty();  // an empty list reads back as one of integers
    for (const double item : value) plain = plain && std::isfinite(item);
    if (plain) return AppendList(out, value, AppendJsonDouble);
    ObjectText object(out);
    AppendList(object.Key("floats"), value, AppendFloatOrSpecial);
    object.Close();
  }
  void operator()(const std::vector<bool>& value) const {
    if (!value.empty()) return AppendList(out, value, AppendBool);
    ObjectText object(out);
    object.Key("bools") += "[]";
    object.Close();
  }
  void operator()(TensorId value) const {
    ObjectText object(out);
    object.Integer("tensor", value.value);
    object.Close();
  }
  void operator()(const TensorList& value) const {
    ObjectText object(out);
    AppendList(object.Key("tensors"), value.ids, AppendIdOrNull);
    object.Close();
  }
  void operator()(ScalarId value) const {
    ObjectText object(out);
    object.Integer("scalar", value.value);
    object.Close();
  }
  void operator()(const ScalarList& value) const {
    ObjectText object(out);
    AppendList(object.Key("scalars"), value.ids, AppendId<ScalarId>);
    object.Close();
  }
  void operator()(const Named& value) const {
    ObjectText object(out);
    object.Text(value.type, value.value);
    object.Close();
  }
};

void AppendScalar(std::string& out, const Scalar& scalar) {
  ObjectText object(out);
  object.Text("name", scalar.name);
  AppendFloat(object.Key("value"), scalar.value);
  object.Close();
}

void AppendStorage(std::string& out, const Storage& storage) {
  ObjectText object(out);
  object.Text("kind", Name(storage.kind));
  object.Integer("bytes", storage.bytes);
  object.TextIfAny("name", storage.name);
  if (storage.released_after.valid()) object.Integer("released_after", storage.released_after.value);
  if (storage.outside) AppendBool(object.Key("outside"), true);
  object.Close();
}

void AppendTensor(std::string& out, const Tensor& tensor) {
  ObjectText object(out);
  object.Integer("storage", tensor.storage.value);
  object.Text("dtype", Name(tensor.dtype));
  AppendDims(object.Key("shape"), tensor.shape);
  if (tensor.stride != ContiguousStride(tensor.shape)) AppendDims(object.Key("stride"), tensor.stride);
  object.IntegerIfAny("offset", tensor.offset);
  object.TextIfAny("name", tensor.name);
  object.Close();
}

void AppendArguments(std::string& out, const std::vector<Argument>& arguments) {
  ObjectText object(out);
  for (const Argument& argument : arguments) std::visit(ValueText{object.Key(argument.name)}, argument.value);
  object.Close();
}

void AppendOp(std::string& out, const Op& op) {
  ObjectText object(out);
  object.Text("kind", op.kind);
  if (op.phase != Phase::kForward) object.Text("phase", Name(op.phase));
  object.TextIfAny("layer", op.layer);
  if (!op.inputs.empty()) AppendTensorIds(object.Key("inputs"), op.inputs);
  if (!op.outputs.empty()) AppendTensorIds(object.Key("outputs"), op.outputs);
  if (!op.mutated.empty()) AppendTensorIds(object.Key("mutated"), op.mutated);
  object.TextIfAny("schema", op.schema);
  if (!op.arguments.empty()) AppendArguments(object.Key("arguments"), op.arguments);
  object.IntegerIfAny("flops", op.flops);
  object.IntegerIfAny("workspace", op.workspace);
  object.IntegerIfAny("time_ns", op.time);
  if (op.random) AppendBool(object.Key("random"), true);
  if (!op.deterministic) AppendBool(object.Key("deterministic"), false);
  object.Close();
}

// What a reader would not take from `meta`: files say no more than those of before these fields, where that will do.
void AppendHead(std::string& out, const TrainingGraph& graph) {
  const GraphHead by_meta = HeadByMeta(graph);
  const auto key = [&](std::string_view name) -> std::string& {
    out += ",\n  ";
    AppendJsonString(out, name);
    return out += ": ";
  };
  if (graph.framework != by_meta.framework) {
    AppendJsonString(key("framework"), Name(graph.framework));
  }
  if (graph.loss_in_model != by_meta.loss_in_model) AppendBool(key("loss_in_model"), graph.loss_in_model);
  if (graph.makes_state_early != by_meta.makes_state_early) {
    AppendBool(key("makes_state_early"), graph.makes_state_early);
  }
}

// The text in pieces: `flush` is called whenever a good part of it has come together, and may take it away.
template <class Flush>
void AppendGraph(std::string& out, const TrainingGraph& graph, Flush flush) {
  const auto section = [&](std::string_view key, const auto& items, auto append_item) {
    if (items.empty()) return;
    out += ",\n  ";
    AppendJsonString(out, key);
    out += ": [";
    bool first = true;
    for (const auto& item : items) {
      out += std::exchange(first, false) ? "\n    " : ",\n    ";
      append_item(out, item);
      flush();
    }
    out += "\n  ]";
  };
  fmt::format_to(std::back_inserter(out), "{{\n  \"format\": \"{}\", \"version\": {}", kGraphFormat, kGraphVersion);
  if (!graph.name.empty()) {
    out += ",\n  \"name\": ";
    AppendJsonString(out, graph.name);
  }
  AppendHead(out, graph);
  if (!graph.meta.empty()) {
    out += ",\n  \"meta\": ";
    ObjectText object(out);
    for (const auto& [key, value] : graph.meta) object.Text(key, value);
    object.Close();
  }
  section("scalars", graph.scalars, AppendScalar);
  section("storages", graph.storages, AppendStorage);
  section("tensors", graph.tensors, AppendTensor);
  section("ops", graph.ops, AppendOp);
  if (!graph.outputs.empty()) {
    out += ",\n  \"outputs\": ";
    AppendTensorIds(out, graph.outputs);
  }
  out += "\n}\n";
}

}  // namespace

std::string ToJson(const TrainingGraph& graph) {
  std::string out;
  AppendGraph(out, graph, [] {});
  return out;
}

Status WriteGraph(const TrainingGraph& graph, const std::string& path) {
  if (const Status status = Check(graph); !status) return Within(path, status.error());
  EBB_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path));
  std::string buffer;
  Status status;
  AppendGraph(buffer, graph, [&] {
    if (buffer.size() < static_cast<std::size_t>(kMiB)) return;
    if (status) status = file.Append(buffer);
    buffer.clear();
  });
  EBB_RETURN_IF_ERROR(status);
  EBB_RETURN_IF_ERROR(file.Append(buffer));
  return file.Commit();
}

}  // namespace ebbtide
