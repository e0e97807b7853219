// The names that measurements use, as the ATen names by which the rest of Ebbtide knows an op.
#pragma once

#include <string>
#include <string_view>

namespace ebbtide::model::timed {

// "sum_dim_IntList" -> "sum", "mean.dim" -> "mean". An op that is written in place and yields a storage of its own is
// the functional one: "relu_" -> "relu".
std::string KindOfTraced(std::string_view name, bool in_place);

// "Conv2d" -> "convolution" and "convolution_backward". Modules that are not known keep their name, in small letters.
struct LayerKinds {
  std::string forward;
  std::string backward;
};
LayerKinds KindsOfLayer(std::string_view module);

// Whether ops of this kind draw from the random state.
bool IsRandomKind(std::string_view kind);

}  // namespace ebbtide::model::timed
