// Arguments are few, so they are looked for one by one.
#include "graph/arguments.h"

#include <numeric>

namespace ebbtide {

const Value* FindArgument(const Op& op, std::string_view name) {
  for (const Argument& argument : op.arguments) {
    if (argument.name == name) return &argument.value;
  }
  return nullptr;
}

TensorId TensorArgument(const Op& op, std::string_view name) {
  const TensorId* id = ArgumentAs<TensorId>(op, name);
  return id ? *id : TensorId();
}

std::int64_t IntegerArgument(const Op& op, std::string_view name, std::int64_t otherwise) {
  const std::int64_t* value = ArgumentAs<std::int64_t>(op, name);
  return value ? *value : otherwise;
}

Dims AxisOrder(const Op& op, std::size_t axes) {
  if (const Dims* dims = ArgumentAs<Dims>(op, "dims")) return *dims;
  Dims order(axes);
  std::iota(order.begin(), order.end(), 0);
  const auto axis = [&](const char* name, std::int64_t otherwise) {
    const std::int64_t at = IntegerArgument(op, name, otherwise);
    return static_cast<std::size_t>(at < 0 ? at + static_cast<std::int64_t>(axes) : at);
  };
  const std::size_t first = axis("dim0", 0), second = axis("dim1", 1);
  if (first < axes && second < axes) std::swap(order[first], order[second]);  // t leaves a vector as it is
  return order;
}

}  // namespace ebbtide
