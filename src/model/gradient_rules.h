// The gradient rules: for every forward op, what PyTorch keeps for its backward and which kernels compute its
// gradients. The table in gradient_rules.cc is the thing to read and to extend; this header is how backward.cc asks it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"

namespace ebbtide::model {

// A formula: a name, or a kernel called on formulas.
struct Formula {
  std::string name;
  bool is_call = false;
  std::vector<Formula> operands;
};

// targets = formula. Runs if any target needs a gradient; yields gradients for those that do.
struct GradientStatement {
  std::vector<std::string> targets;  // argument names of the forward op
  Formula formula;
  std::vector<std::string> reads;  // NamesRead of it
};

struct GradientRule {
  std::vector<std::string> cpu_saves;  // what the autograd node holds, by argument or result name
  std::vector<std::string> cuda_saves;
  bool on_cpu = true, on_cuda = true;       // whether kernels of that device use the op at all
  std::vector<GradientStatement> backward;  // in execution order; empty: gradients stop here
};

// nullptr if the table does not know the op.
const GradientRule* FindGradientRule(std::string_view kind);

// All op kinds of the table, in its order.
std::vector<std::string> GradientRuleKinds();

// Names a formula reads, without repeats ("grad", argument and result names).
std::vector<std::string> NamesRead(const Formula& formula);

}  // namespace ebbtide::model
