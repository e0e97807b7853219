// Variables: what reads and what changes them.
#include "model/tensorflow/inference.h"

namespace ebbtide::model::tensorflow {

Status InferRead(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1));
  if (at.In(0).variable == kNone) return Fail("expected the handle of a variable");
  const int number = at.In(0).variable;
  const Variable& variable = at.flat().variables[static_cast<std::size_t>(number)];
  at.Yield({Kind::kNumbers, variable.dtype}, variable.shape);
  at.flat().values.back().variable = number;
  return {};
}

Status InferUpdate(Inference& at) {
  EBB_RETURN_IF_ERROR(at.Expect(1, 16));
  if (at.In(0).variable == kNone) return Fail("expected the handle of a variable");
  return {};
}

Status InferNothing(Inference& /*at*/) { return {}; }

Status InferAll(Inference& at) {
  for (const ValueId input : at.node().inputs) at.YieldSame(input);
  return {};
}

}  // namespace ebbtide::model::tensorflow
