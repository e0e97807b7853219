// The inputs of the graph, with symbolic sizes bound to what the user chose.
#pragma once

#include "model/onnx/lower.h"

namespace ebbtide::model::onnx {

// A symbol is bound by its name (batch, seq, height ...), else by its place: the first axis is the batch; later axes
// are tokens, or pixels where there are four axes and more. One symbol has one size throughout. An error where a size
// is fixed in the file but chosen otherwise, or symbolic and not chosen.
Status MakeInputs(Lowering& state);

}  // namespace ebbtide::model::onnx
