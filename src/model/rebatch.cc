// Numbers every size of a graph by one fixed walk, and draws a line through each pair that differs.
#include "model/rebatch.h"

#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/units.h"
#include "graph/check.h"
#include "graph/place.h"

namespace ebbtide::model {
namespace {

// ---- The walk: every number that may depend on the batch, always in the same order.
template <class Number>
void WalkDims(Dims& dims, Number&& number) {
  for (std::int64_t& dim : dims) number(dim);
}

template <class Number, class Float>
void WalkOp(Op& op, Number&& number, Float&& real) {
  number(op.flops);
  number(op.workspace);
  for (Argument& argument : op.arguments) {
    if (auto* whole = std::get_if<std::int64_t>(&argument.value)) number(*whole);
    if (auto* dims = std::get_if<Dims>(&argument.value)) WalkDims(*dims, number);
    if (auto* value = std::get_if<double>(&argument.value)) real(*value);
  }
}

template <class Number>
void WalkTensor(Tensor& tensor, Number&& number) {
  WalkDims(tensor.shape, number);
  WalkDims(tensor.stride, number);
  number(tensor.offset);
}

template <class Number, class Float>
void Walk(TrainingGraph& graph, Number&& number, Float&& real) {
  for (Op& op : graph.ops) WalkOp(op, number, real);
  for (Tensor& tensor : graph.tensors) WalkTensor(tensor, number);
  for (Storage& storage : graph.storages) number(storage.bytes);
}

// What remains when the numbers are taken out.
template <class Part>
Part Shell(Part part) {
  const auto forget = [](std::int64_t& value) { value = 0; };
  if constexpr (std::is_same_v<Part, Op>) {
    WalkOp(part, forget, [](double& value) { value = 0; });
  } else if constexpr (std::is_same_v<Part, Tensor>) {
    WalkTensor(part, forget);
  } else if constexpr (std::is_same_v<Part, std::string>) {  // of meta: the batch itself may stand there
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string::npos) part.clear();
  } else {
    forget(part.bytes);
  }
  return part;
}

// ---- How messages name a part: by the op that makes it, where one does.
std::string PlaceOfTensor(const TrainingGraph& graph, TensorId id) {
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (std::size_t k = 0; k < graph.ops[i].outputs.size(); ++k) {
      if (graph.ops[i].outputs[k] == id) return fmt::format("{}: outputs[{}]", PlaceOf(graph, OpId(i)), k);
    }
  }
  return PlaceOf(graph, id);
}

std::string PlaceOfStorage(const TrainingGraph& graph, StorageId id) {
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].storage == id) return PlaceOfTensor(graph, TensorId(i));
  }
  return PlaceOf(graph, id);
}

std::string PlaceOfPart(const TrainingGraph& graph, OpId id) { return PlaceOf(graph, id); }
std::string PlaceOfPart(const TrainingGraph& graph, TensorId id) { return PlaceOfTensor(graph, id); }
std::string PlaceOfPart(const TrainingGraph& graph, StorageId id) { return PlaceOfStorage(graph, id); }

// The part that a number of the walk belongs to.
std::string PlaceOfNumber(const TrainingGraph& graph, std::size_t index, bool is_float) {
  std::size_t numbers = 0, floats = 0;
  const auto count = [&](std::int64_t&) { ++numbers; };
  const auto count_float = [&](double&) { ++floats; };
  const auto passed = [&] { return is_float ? floats > index : numbers > index; };
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    Op op = graph.ops[i];
    WalkOp(op, count, count_float);
    if (passed()) return PlaceOf(graph, OpId(i));
  }
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    Tensor tensor = graph.tensors[i];
    WalkTensor(tensor, count);
    if (passed()) return PlaceOfTensor(graph, TensorId(i));
  }
  return PlaceOfStorage(graph, StorageId(index - numbers));
}

// The first part in which the two lists differ, by `same`.
template <class IdType, class Part, class Same>
std::optional<std::string> FirstDifference(const TrainingGraph& graph, const std::vector<Part>& a,
                                           const std::vector<Part>& b, Same same) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!same(a[i], b[i])) return PlaceOfPart(graph, IdType(i));
  }
  return std::nullopt;
}

constexpr auto kSameShell = [](const auto& a, const auto& b) { return Shell(a) == Shell(b); };
constexpr auto kSame = [](const auto& a, const auto& b) { return a == b; };

template <class Same>
std::optional<std::string> FirstDifference(const TrainingGraph& a, const TrainingGraph& b, Same same) {
  if (auto place = FirstDifference<OpId>(a, a.ops, b.ops, same)) return place;
  if (auto place = FirstDifference<TensorId>(a, a.tensors, b.tensors, same)) return place;
  if (auto place = FirstDifference<StorageId>(a, a.storages, b.storages, same)) return place;
  if (a.ops.size() != b.ops.size()) return fmt::format("{} and {} ops", a.ops.size(), b.ops.size());
  if (a.tensors.size() != b.tensors.size()) return "the number of tensors";
  if (a.storages.size() != b.storages.size()) return "the number of storages";
  if (a.scalars != b.scalars) return "the scalars";
  if (a.outputs != b.outputs) return "the outputs";
  if (a.framework != b.framework) return "the framework";
  for (const auto& [key, value] : a.meta) {
    const auto found = b.meta.find(key);
    if (found == b.meta.end() || !same(value, found->second)) return "meta." + key;
  }
  if (a.meta.size() != b.meta.size()) return "meta";
  return std::nullopt;
}

// Values of constants, which matter to whoever runs the step, stay where both captures have the same.
bool IsConstant(const std::string& key) { return key.starts_with("constant."); }

void KeepCommonConstants(TrainingGraph& graph, const TrainingGraph& other) {
  std::erase_if(graph.meta, [&](const auto& entry) {
    const auto found = other.meta.find(entry.first);
    return IsConstant(entry.first) && (found == other.meta.end() || found->second != entry.second);
  });
}

// The first size of an input that differs.
std::optional<std::pair<std::int64_t, std::int64_t>> BatchesOf(const TrainingGraph& a, const TrainingGraph& b) {
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const Tensor &of_a = a.tensors[i], &of_b = b.tensors[i];
    if (a.storage(of_a.storage).kind != StorageKind::kInput) continue;
    for (std::size_t d = 0; d < of_a.shape.size(); ++d) {
      if (of_a.shape[d] != of_b.shape[d]) return std::pair(of_a.shape[d], of_b.shape[d]);
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> Whole(double value) {
  const double rounded = std::round(value);
  if (!(std::abs(rounded) < 0x1p53)) return std::nullopt;
  return static_cast<std::int64_t>(rounded);
}

}  // namespace

Result<AnyBatch> AnyBatch::Make(const TrainingGraph& first, const TrainingGraph& second) {
  AnyBatch any;
  any.graph_ = first;
  TrainingGraph other = second;
  KeepCommonConstants(any.graph_, second);
  KeepCommonConstants(other, first);
  if (const auto place = FirstDifference(any.graph_, other, kSameShell)) {
    return Fail("{}: not the same at both batches; expected two captures of one step that differ in sizes only",
                *place);
  }
  const auto batches = BatchesOf(any.graph_, other);
  if (!batches) return Fail("expected captures at two batches, but all inputs have the same sizes");
  std::tie(any.first_batch_, any.second_batch_) = *batches;
  for (const auto& [key, value] : any.graph_.meta) {
    if (value == other.meta.at(key)) continue;
    if (value != std::to_string(any.first_batch_) || other.meta.at(key) != std::to_string(any.second_batch_)) {
      return Fail("meta.{}: {} and {}; expected the same, or the batch", key, value, other.meta.at(key));
    }
    any.batch_keys_.push_back(key);
  }

  std::vector<std::int64_t> numbers;
  std::vector<double> floats;
  Walk(
      other, [&](std::int64_t& value) { numbers.push_back(value); }, [&](double& value) { floats.push_back(value); });
  std::size_t at = 0, float_at = 0;
  std::optional<std::size_t> bad_float, too_far;
  Walk(
      any.graph_,
      [&](std::int64_t& value) {
        std::int64_t rise = 0;
        const bool overflows = __builtin_sub_overflow(numbers[at], value, &rise);
        if ((overflows || rise > kTooLarge || rise < -kTooLarge) && !too_far) too_far = at;
        if (rise != 0) any.steps_.push_back({at, rise});
        ++at;
      },
      [&](double& value) {
        const double other_value = floats[float_at];
        const bool same = value == other_value || (std::isnan(value) && std::isnan(other_value));
        if (!same) {
          FloatStep step{.index = float_at};
          const auto fits = [&](double a, double b, Growth growth) {
            const auto whole_a = Whole(a), whole_b = Whole(b);
            const auto back = [&](std::int64_t whole) {
              return growth == Growth::kLinear ? static_cast<double>(whole) : 1.0 / static_cast<double>(whole);
            };
            if (!whole_a || !whole_b || back(*whole_a) != value || back(*whole_b) != other_value) return false;
            step.growth = growth;
            step.first = *whole_a;
            step.rise = *whole_b - *whole_a;
            return true;
          };
          if (!fits(value, other_value, Growth::kLinear) && !fits(1 / value, 1 / other_value, Growth::kReciprocal)) {
            if (!bad_float) bad_float = float_at;
          }
          any.float_steps_.push_back(step);
        }
        ++float_at;
      });
  if (too_far) {
    return Fail("{}: a number differs by more than any size; expected sizes", PlaceOfNumber(first, *too_far, false));
  }
  if (bad_float) {
    return Fail(
        "{}: a number depends on the batch in a way that two captures do not tell; expected a size or its "
        "reciprocal",
        PlaceOfNumber(first, *bad_float, true));
  }
  const std::int64_t apart = any.second_batch_ - any.first_batch_;
  for (const Step& step : any.steps_) {
    if (step.rise % apart == 0) continue;
    return Fail(
        "{}: a size grows by {} from batch {} to {}; expected a multiple of {}, as sizes that grow evenly with "
        "the batch have",
        PlaceOfNumber(first, step.index, false), step.rise, any.first_batch_, any.second_batch_, apart);
  }
  return any;
}

Result<std::int64_t> AnyBatch::OnLine(std::int64_t first, std::int64_t rise, std::int64_t batch) const {
  const auto product = CheckedMul(rise / (second_batch_ - first_batch_), batch - first_batch_);
  const auto sum = product ? CheckedAdd(first, *product) : std::nullopt;
  if (!sum) return Fail("sizes at batch {} exceed 64 bits", batch);
  return *sum;
}

Result<TrainingGraph> AnyBatch::At(std::int64_t batch) const {
  if (batch < 1) return Fail("batch {}: expected a positive one", batch);
  EBB_ASSIGN_OR_RETURN(TrainingGraph graph, Unchecked(batch));
  if (const Status valid = Check(graph); !valid) return Within(fmt::format("at batch {}", batch), valid.error());
  return graph;
}

Result<TrainingGraph> AnyBatch::Unchecked(std::int64_t batch) const {
  TrainingGraph graph = graph_;
  for (const std::string& key : batch_keys_) graph.meta[key] = std::to_string(batch);
  std::optional<Error> error;
  auto step = steps_.begin();
  auto float_step = float_steps_.begin();
  std::size_t at = 0, float_at = 0;
  const auto on_line = [&](std::int64_t first, std::int64_t rise) {
    const Result<std::int64_t> value = OnLine(first, rise, batch);
    if (value) return *value;
    if (!error) error = value.error();
    return first;
  };
  Walk(
      graph,
      [&](std::int64_t& value) {
        if (step != steps_.end() && step->index == at) value = on_line(value, (step++)->rise);
        ++at;
      },
      [&](double& value) {
        if (float_step != float_steps_.end() && float_step->index == float_at) {
          const auto whole = static_cast<double>(on_line(float_step->first, float_step->rise));
          value = float_step->growth == Growth::kLinear ? whole : 1.0 / whole;
          ++float_step;
        }
        ++float_at;
      });
  if (error) return tl::unexpected<Error>(*error);
  return graph;
}

Status AnyBatch::Confirm(const TrainingGraph& third) const {
  TrainingGraph same = third;
  KeepCommonConstants(same, graph_);
  TrainingGraph mine = graph_;
  KeepCommonConstants(mine, third);
  if (const auto place = FirstDifference(mine, same, kSameShell)) {
    return Fail("{}: not the same at all batches; expected captures of one step that differ in sizes only", *place);
  }
  const auto batches = BatchesOf(graph_, same);
  const std::int64_t batch = batches ? batches->second : first_batch_;
  EBB_ASSIGN_OR_RETURN(TrainingGraph made, Unchecked(batch));
  KeepCommonConstants(made, third);
  if (const auto place = FirstDifference(made, same, kSame)) {
    return Fail(
        "{}: at batch {} it is not on the line through batches {} and {}; expected sizes that grow evenly with "
        "the batch",
        *place, batch, first_batch_, second_batch_);
  }
  return {};
}

}  // namespace ebbtide::model
