#include "graph/arguments.h"

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

}  // namespace ebbtide
