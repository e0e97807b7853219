// What an operator's schema and kernels tell, for all that observe the dispatcher.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

namespace ebbtide_observer {

struct OperatorFacts {
  c10::OperatorHandle handle;
  std::string space, base;       // "aten", "topk"
  bool is_view = false;          // a result is a part of an argument
  bool leaves_contents = false;  // has a kernel that touches no content, or changes what a tensor is and not its bytes
  bool makes_nothing = false;    // fresh memory without content, as `empty`
  bool reads = true;             // false: its result does not depend on contents, as `zeros_like`
  bool own_kernel = false;       // for CUDA
  bool shared_kernel = false;    // one for all devices, made of other operators
  std::vector<bool> mutates;     // by argument
  std::vector<bool> is_out;      // by argument
  std::vector<bool> fresh;       // by result: not one of its arguments
};
// None: an operator without a schema.
std::optional<OperatorFacts> FactsOf(const c10::OperatorName& name);

}  // namespace ebbtide_observer
