// The operators with several named outputs.
#include "model/tensorflow/output_names.h"

#include <algorithm>

namespace ebbtide::model::tensorflow {
namespace {

struct Row {
  std::string_view op;
  std::string_view outputs;  // separated by spaces
};

// Of operators with several outputs of different names, as TensorFlow registers them.
constexpr Row kRows[] = {
    {"BroadcastGradientArgs", "r0 r1"},
    {"CudnnRNNV3", "output output_h output_c reserve_space host_reserved"},
    {"CudnnRNNBackpropV3", "input_backprop input_h_backprop input_c_backprop params_backprop"},
    {"FusedBatchNorm", "y batch_mean batch_variance reserve_space_1 reserve_space_2"},
    {"FusedBatchNormV2", "y batch_mean batch_variance reserve_space_1 reserve_space_2"},
    {"FusedBatchNormV3", "y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3"},
    {"FusedBatchNormGrad", "x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4"},
    {"FusedBatchNormGradV2", "x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4"},
    {"FusedBatchNormGradV3", "x_backprop scale_backprop offset_backprop reserve_space_4 reserve_space_5"},
    {"SoftmaxCrossEntropyWithLogits", "loss backprop"},
    {"SparseSoftmaxCrossEntropyWithLogits", "loss backprop"},
    {"StatelessRandomGetKeyCounter", "key counter"},
    {"TensorListPopBack", "output_handle tensor"},
    {"TopKV2", "values indices"},
    {"Unique", "y idx"},
};

}  // namespace

int PlaceOfOutput(std::string_view op, std::string_view output) {
  for (const Row& row : kRows) {
    if (row.op != op) continue;
    int place = 0;
    for (std::string_view rest = row.outputs; !rest.empty(); ++place) {
      const std::string_view name = rest.substr(0, rest.find(' '));
      if (name == output) return place;
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    }
  }
  return 0;
}

}  // namespace ebbtide::model::tensorflow
