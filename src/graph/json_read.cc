// From text to a TrainingGraph, in one pass over the text; see docs/graph-format.md.
#include <fmt/format.h>

#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include "base/file.h"
#include "base/json_fields.h"
#include "base/json_reader.h"
#include "graph/check.h"
#include "graph/head.h"
#include "graph/json.h"
#include "graph/names.h"
#include "graph/shape.h"

namespace ebbtide {
namespace {

using Field = JsonFields::Field;
using Type = JsonReader::Type;

constexpr std::int64_t kLargestId = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kLargestInteger = std::numeric_limits<std::int64_t>::max();

class GraphParser {
 public:
  explicit GraphParser(std::string_view text) : in_(text) {}

  Result<TrainingGraph> Parse() {
    ParseRoot();
    in_.End();
    CompleteHead();
    if (!in_.ok()) return tl::unexpected<Error>(in_.error());
    return std::move(graph_);
  }

 private:
  void ParseRoot();
  void CompleteHead();
  void ParseMeta();
  Scalar ParseScalar();
  double ParseScalarValue();
  Storage ParseStorage();
  Tensor ParseTensor();
  Op ParseOp();
  std::vector<Argument> ParseArguments();
  Value ParseValue();
  Value ParseListValue();
  Value ParseObjectValue();
  TensorList ParseTensorList();
  ScalarList ParseScalarList();
  std::vector<double> ParseFloats();
  std::vector<bool> ParseBools();

  std::int64_t Count(std::string_view expected) { return in_.Integer(expected, 0, kLargestInteger); }
  template <class IdType>
  IdType ParseId(std::string_view expected) {
    return IdType(static_cast<std::size_t>(in_.Integer(expected, 0, kLargestId)));
  }
  double ParseInfinityOrNan();
  Dims ParseDims();
  std::vector<TensorId> ParseTensorIds();

  // All items of a list, each by `parse`.
  template <class Item>
  void ParseAll(std::vector<Item>& items, Item (GraphParser::*parse)()) {
    in_.BeginList();
    while (in_.NextItem()) {
      if (in_.item() > kLargestId) return in_.FailWith(fmt::format("more than {} of these", kLargestId));
      items.push_back((this->*parse)());
    }
  }

  // Names from a fixed set.
  template <class Enum>
  Enum ParseEnum(std::optional<Enum> (*from_name)(std::string_view), std::string_view expected) {
    const auto value = from_name(in_.String(expected));
    if (!value) in_.FailLast(expected);
    return value.value_or(Enum{});
  }

  JsonReader in_;
  TrainingGraph graph_;
  std::optional<Framework> framework_;
  std::optional<bool> loss_in_model_, makes_state_early_;
  // Lists are collected here and leave it when their length is known: the graph holds no spare capacity.
  Dims dims_;
  std::vector<TensorId> ids_;
  std::vector<Argument> arguments_;
};

void GraphParser::ParseRoot() {
  enum {
    kFormat,
    kVersion,
    kName,
    kFramework,
    kLossInModel,
    kMakesStateEarly,
    kMeta,
    kScalars,
    kStorages,
    kTensors,
    kOps,
    kOutputs
  };
  static constexpr Field kFields[] = {{"format", true},  {"version", true},     {"name"}, {"framework"},
                                      {"loss_in_model"}, {"makes_state_early"}, {"meta"}, {"scalars"},
                                      {"storages"},      {"tensors"},           {"ops"},  {"outputs"}};
  JsonFields fields(in_, kFields);
  for (int field; (field = fields.Next()) >= 0;) {
    switch (field) {
      case kFormat: {
        const std::string expected = fmt::format("\"{}\"", kGraphFormat);
        if (in_.String(expected) != kGraphFormat) in_.FailLast(expected);
        break;
      }
      case kVersion: {
        const std::int64_t version = in_.Integer("a version number", 1, kLargestInteger);
        if (in_.ok() && version > kGraphVersion) {
          in_.FailWith(fmt::format("{} is newer than this program reads ({})", version, kGraphVersion));
        }
        break;
      }
      case kName: graph_.name = in_.String(); break;
      case kFramework:
        framework_ = ParseEnum(FrameworkFromName, "\"none\", \"pytorch\", \"mxnet\" or \"tensorflow\"");
        break;
      case kLossInModel: loss_in_model_ = in_.Bool(); break;
      case kMakesStateEarly: makes_state_early_ = in_.Bool(); break;
      case kMeta: ParseMeta(); break;
      case kScalars: ParseAll(graph_.scalars, &GraphParser::ParseScalar); break;
      case kStorages: ParseAll(graph_.storages, &GraphParser::ParseStorage); break;
      case kTensors: ParseAll(graph_.tensors, &GraphParser::ParseTensor); break;
      case kOps: ParseAll(graph_.ops, &GraphParser::ParseOp); break;
      case kOutputs: graph_.outputs = ParseTensorIds(); break;
    }
  }
}

// Files of before these fields say the same in `meta`.
void GraphParser::CompleteHead() {
  if (!in_.ok()) return;
  const GraphHead by_meta = HeadByMeta(graph_);
  graph_.framework = framework_.value_or(by_meta.framework);
  graph_.loss_in_model = loss_in_model_.value_or(by_meta.loss_in_model);
  graph_.makes_state_early = makes_state_early_.value_or(by_meta.makes_state_early);
}

void GraphParser::ParseMeta() {
  in_.BeginObject();
  while (in_.NextKey()) {
    const auto [entry, is_new] = graph_.meta.try_emplace(std::string(in_.key()));
    if (!is_new) return in_.FailWith("this key appears twice in its object");
    entry->second = in_.String();
  }
}

Scalar GraphParser::ParseScalar() {
  enum { kName, kValue };
  static constexpr Field kFields[] = {{"name", true}, {"value", true}};
  Scalar scalar;
  JsonFields fields(in_, kFields, "a scalar: an object");
  for (int field; (field = fields.Next()) >= 0;) {
    switch (field) {
      case kName: scalar.name = in_.String(); break;
      case kValue: scalar.value = ParseScalarValue(); break;
    }
  }
  return scalar;
}

// Of an integer only the value counts here: a writer may drop the point.
double GraphParser::ParseScalarValue() {
  static constexpr Field kFields[] = {{"float", true}};
  if (in_.Peek() != Type::kObject) return in_.AnyNumber().real;
  double value = 0;
  JsonFields fields(in_, kFields);
  while (fields.Next() >= 0) value = ParseInfinityOrNan();
  return value;
}

Storage GraphParser::ParseStorage() {
  enum { kKind, kBytes, kName, kReleasedAfter, kOutside };
  static constexpr Field kFields[] = {{"kind", true}, {"bytes", true}, {"name"}, {"released_after"}, {"outside"}};
  Storage storage;
  JsonFields fields(in_, kFields, "a storage: an object");
  for (int field; (field = fields.Next()) >= 0;) {
    switch (field) {
      case kKind:
        storage.kind = ParseEnum(StorageKindFromName, "a kind of storage (\"parameter\", \"activation\", ...)");
        break;
      case kBytes: storage.bytes = Count("a number of bytes"); break;
      case kName: storage.name = in_.String(); break;
      case kReleasedAfter: storage.released_after = ParseId<OpId>("the number of an op"); break;
      case kOutside: storage.outside = in_.Bool(); break;
    }
  }
  return storage;
}

Tensor GraphParser::ParseTensor() {
  enum { kStorage, kDType, kShape, kStride, kOffset, kName };
  static constexpr Field kFields[] = {{"storage", true}, {"dtype", true}, {"shape", true},
                                      {"stride"},        {"offset"},      {"name"}};
  Tensor tensor;
  bool strided = false;
  JsonFields fields(in_, kFields, "a tensor: an object");
  for (int field; (field = fields.Next()) >= 0;) {
    switch (field) {
      case kStorage: tensor.storage = ParseId<StorageId>("the number of a storage"); break;
      case kDType: tensor.dtype = ParseEnum(DTypeFromName, "a dtype (\"float32\", \"int64\", ...)"); break;
      case kShape: tensor.shape = ParseDims(); break;
      case kStride: tensor.stride = ParseDims(), strided = true; break;
      case kOffset: tensor.offset = Count("a number of elements"); break;
      case kName: tensor.name = in_.String(); break;
    }
  }
  if (!strided && in_.ok()) {
    auto stride = ContiguousStride(tensor.shape);
    if (!stride) in_.FailWith("expected a shape whose strides fit 64 bits");
    tensor.stride = std::move(stride).value_or(Dims{});
  }
  return tensor;
}

Op GraphParser::ParseOp() {
  enum {
    kKind,
    kPhase,
    kLayer,
    kInputs,
    kOutputs,
    kMutated,
    kSchema,
    kArguments,
    kFlops,
    kWorkspace,
    kTime,
    kRandom,
    kDeterministic
  };
  static constexpr Field kFields[] = {{"kind", true}, {"phase"},  {"layer"},        {"inputs"}, {"outputs"},
                                      {"mutated"},    {"schema"}, {"arguments"},    {"flops"},  {"workspace"},
                                      {"time_ns"},    {"random"}, {"deterministic"}};
  Op op;
  JsonFields fields(in_, kFields, "an op: an object");
  for (int field; (field = fields.Next()) >= 0;) {
    switch (field) {
      case kKind: op.kind = in_.String(); break;
      case kPhase: op.phase = ParseEnum(PhaseFromName, "\"forward\", \"backward\" or \"update\""); break;
      case kLayer: op.layer = in_.String(); break;
      case kInputs: op.inputs = ParseTensorIds(); break;
      case kOutputs: op.outputs = ParseTensorIds(); break;
      case kMutated: op.mutated = ParseTensorIds(); break;
      case kSchema: op.schema = in_.String(); break;
      case kArguments: op.arguments = ParseArguments(); break;
      case kFlops: op.flops = Count("a number of operations"); break;
      case kWorkspace: op.workspace = Count("a number of bytes"); break;
      case kTime: op.time = Count("a number of nanoseconds"); break;
      case kRandom: op.random = in_.Bool(); break;
      case kDeterministic: op.deterministic = in_.Bool(); break;
    }
  }
  return op;
}

std::vector<Argument> GraphParser::ParseArguments() {
  arguments_.clear();
  in_.BeginObject();
  while (in_.NextKey()) {
    if (arguments_.size() == kMostArguments) in_.FailWith(fmt::format("more than {} arguments", kMostArguments));
    Argument& argument = arguments_.emplace_back();
    argument.name = in_.key();
    argument.value = ParseValue();
  }
  return {std::make_move_iterator(arguments_.begin()), std::make_move_iterator(arguments_.end())};
}

Value GraphParser::ParseValue() {
  switch (in_.Peek()) {
    case Type::kNull: in_.Null(); return {};
    case Type::kBool: return in_.Bool();
    case Type::kString: return std::string(in_.String());
    case Type::kList: return ParseListValue();
    case Type::kObject: return ParseObjectValue();
    case Type::kNumber:
    case Type::kNone: break;
  }
  const JsonReader::Number number = in_.AnyNumber("a value");
  return number.is_integer ? Value(number.integer) : Value(number.real);
}

// What kind of list it is, the first item tells; the others must follow.
Value GraphParser::ParseListValue() {
  in_.BeginList();
  if (!in_.NextItem()) return Dims{};
  if (in_.Peek() == Type::kBool) {
    std::vector<bool> bools;
    do bools.push_back(in_.Bool("true or false, like the items before"));
    while (in_.NextItem());
    return bools;
  }
  const JsonReader::Number first = in_.AnyNumber("an integer, a float, true or false");
  if (!first.is_integer) {
    std::vector<double> floats = {first.real};
    while (in_.NextItem()) floats.push_back(in_.Float("a float, like the items before,"));
    return floats;
  }
  dims_.assign(1, first.integer);
  while (in_.NextItem()) dims_.push_back(in_.Integer("an integer, like the items before,"));
  return Dims(dims_);
}

Value GraphParser::ParseObjectValue() {
  enum { kTensor, kTensors, kScalar, kScalars, kFloat, kFloats, kBools, kDType, kDevice, kLayout, kMemoryFormat };
  static constexpr Field kFields[] = {{"tensor"}, {"tensors"}, {"scalar"}, {"scalars"}, {"float"},        {"floats"},
                                      {"bools"},  {"dtype"},   {"device"}, {"layout"},  {"memory_format"}};
  Value value;
  int keys = 0;
  JsonFields fields(in_, kFields);
  for (int field; (field = fields.Next()) >= 0; ++keys) {
    switch (field) {
      case kTensor: value = ParseId<TensorId>("the number of a tensor"); break;
      case kTensors: value = ParseTensorList(); break;
      case kScalar: value = ParseId<ScalarId>("the number of a scalar"); break;
      case kScalars: value = ParseScalarList(); break;
      case kFloat: value = ParseInfinityOrNan(); break;
      case kFloats: value = ParseFloats(); break;
      case kBools: value = ParseBools(); break;
      default: value = Named{std::string(kFields[field].name), std::string(in_.String())};
    }
  }
  if (in_.ok() && keys != 1) in_.FailWith(fmt::format("expected an object of one key, found {}", keys));
  return value;
}

TensorList GraphParser::ParseTensorList() {
  ids_.clear();
  in_.BeginList();
  while (in_.NextItem()) {
    if (in_.Peek() == Type::kNull) {
      in_.Null();
      ids_.emplace_back();
    } else {
      ids_.push_back(ParseId<TensorId>("the number of a tensor or null"));
    }
  }
  return {.ids = ids_};
}

ScalarList GraphParser::ParseScalarList() {
  ScalarList list;
  in_.BeginList();
  while (in_.NextItem()) list.ids.push_back(ParseId<ScalarId>("the number of a scalar"));
  return list;
}

std::vector<double> GraphParser::ParseFloats() {
  std::vector<double> floats;
  in_.BeginList();
  while (in_.NextItem()) {
    floats.push_back(in_.Peek() == Type::kString ? ParseInfinityOrNan() : in_.Float("a float"));
  }
  return floats;
}

std::vector<bool> GraphParser::ParseBools() {
  std::vector<bool> bools;
  in_.BeginList();
  while (in_.NextItem()) bools.push_back(in_.Bool());
  return bools;
}

double GraphParser::ParseInfinityOrNan() {
  constexpr std::string_view kExpected = "\"inf\", \"-inf\" or \"nan\"";
  const std::string_view name = in_.String(kExpected);
  if (name == "inf") return std::numeric_limits<double>::infinity();
  if (name == "-inf") return -std::numeric_limits<double>::infinity();
  if (name != "nan") in_.FailLast(kExpected);
  return std::numeric_limits<double>::quiet_NaN();
}

Dims GraphParser::ParseDims() {
  dims_.clear();
  in_.BeginList();
  while (in_.NextItem()) dims_.push_back(Count("a number of elements"));
  return dims_;
}

std::vector<TensorId> GraphParser::ParseTensorIds() {
  ids_.clear();
  in_.BeginList();
  while (in_.NextItem()) ids_.push_back(ParseId<TensorId>("the number of a tensor"));
  return ids_;
}

}  // namespace

Result<TrainingGraph> ParseGraph(std::string_view text, const std::string& name) {
  auto graph = GraphParser(text).Parse();
  if (!graph) return Within(name, graph.error());
  if (const Status status = Check(*graph); !status) return Within(name, status.error());
  return graph;
}

Result<TrainingGraph> ReadGraph(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kGraphFileLimit));
  return ParseGraph(text, path);
}

}  // namespace ebbtide
