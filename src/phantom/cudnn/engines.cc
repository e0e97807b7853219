// Which engines an operation graph has: those of its convolution, or one for the fused graphs of attention and norms.
#include <algorithm>

#include "phantom/cudnn/backend.h"

namespace ebbtide::phantom {

namespace {

struct ConvolutionNames {
  cudnnBackendDescriptorType_t kind;
  ConvolutionPass pass;
  cudnnBackendAttributeName_t convolution, input, filter, output;
};

constexpr ConvolutionNames kConvolutions[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, ConvolutionPass::kForward,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, ConvolutionPass::kDataGradient,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, ConvolutionPass::kFilterGradient,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
};

bool ConvolutionTypeOf(int type, ConvolutionType& out) {
  switch (type) {
    case CUDNN_DATA_FLOAT: out = ConvolutionType::kFloat32; return true;
    case CUDNN_DATA_DOUBLE: out = ConvolutionType::kFloat64; return true;
    case CUDNN_DATA_HALF: out = ConvolutionType::kFloat16; return true;
    case CUDNN_DATA_BFLOAT16: out = ConvolutionType::kBFloat16; return true;
    case CUDNN_DATA_INT8: out = ConvolutionType::kInt8; return true;
    default: return false;
  }
}

std::vector<std::int64_t> Spatial(std::span<const std::int64_t> dims) { return {dims.begin() + 2, dims.end()}; }

std::vector<ConvolutionEngine> OfConvolution(const Descriptor& operation, const ConvolutionNames& names) {
  const Descriptor& convolution = *operation.Reference(names.convolution);
  const Descriptor& input = *operation.Reference(names.input);
  std::span<const std::int64_t> in = input.Integers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  std::span<const std::int64_t> filter = operation.Reference(names.filter)->Integers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  std::span<const std::int64_t> out = operation.Reference(names.output)->Integers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  std::span<const std::int64_t> strides = input.Integers(CUDNN_ATTR_TENSOR_STRIDES);
  auto rank = static_cast<std::size_t>(convolution.Integer(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  if (in.size() != rank + 2 || filter.size() != rank + 2 || out.size() != rank + 2 || filter[1] < 1) {
    Refuse("a cuDNN convolution whose tensors differ in rank");
    return {};
  }
  ConvolutionProblem problem;
  if (!ConvolutionTypeOf(input.Enum(CUDNN_ATTR_TENSOR_DATA_TYPE), problem.type)) {
    Refuse("a cuDNN convolution of data type " + std::to_string(input.Enum(CUDNN_ATTR_TENSOR_DATA_TYPE)));
    return {};
  }
  std::span<const std::int64_t> stride = convolution.Integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  std::span<const std::int64_t> dilation = convolution.Integers(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  problem.pass = names.pass;
  problem.is_channels_last = strides[1] == 1 && in[1] > 1;
  problem.batch = in[0];
  problem.in_channels = in[1];
  problem.out_channels = filter[0];
  problem.groups = in[1] / filter[1];
  problem.input = Spatial(in);
  problem.filter = Spatial(filter);
  problem.output = Spatial(out);
  problem.stride.assign(stride.begin(), stride.end());
  problem.dilation.assign(dilation.begin(), dilation.end());
  std::vector<ConvolutionEngine> engines = ConvolutionEngines(problem, Profile());
  for (ConvolutionEngine& engine : engines) engine.time = TimeOfConvolution(problem);
  return engines;
}

}  // namespace

std::vector<ConvolutionEngine> EnginesOfGraph(const Descriptor& graph) {
  int matmuls = 0, norms = 0, others = 0;
  std::string kinds;
  const ConvolutionNames* names = nullptr;
  const Descriptor* convolution = nullptr;
  for (const auto& operation : graph.Find(CUDNN_ATTR_OPERATIONGRAPH_OPS)->descriptors) {
    kinds += (kinds.empty() ? "" : ", ") + std::string(operation->kind->name);
    auto found = std::find_if(std::begin(kConvolutions), std::end(kConvolutions),
                              [&](const ConvolutionNames& row) { return row.kind == operation->kind->type; });
    switch (operation->kind->type) {
      case CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR:
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: break;
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: ++matmuls; break;
      case CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR: matmuls += 2; break;
      case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR: ++norms; break;
      default:
        if (found == std::end(kConvolutions))
          ++others;
        else if (convolution)
          names = nullptr;  // two of them
        else
          names = &*found, convolution = operation.get();
    }
  }
  if (names && matmuls + norms + others == 0) return OfConvolution(*convolution, *names);
  if (!convolution && norms == 0 && matmuls >= 2) return {{.name = "cudnn_attention", .uses_tensor_cores = true}};
  if (!convolution && norms == 1 && matmuls + others == 0) return {{.name = "cudnn_norm"}};
  // What attention does to its scores comes as a graph of its own.
  if (!convolution && norms + matmuls + others == 0) return {{.name = "cudnn_pointwise"}};
  Refuse("a cuDNN graph of " + kinds);
  return {};
}

}  // namespace ebbtide::phantom
