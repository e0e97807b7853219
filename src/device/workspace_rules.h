// How much memory the CUDA libraries take beside the tensors they are given: convolution, batch norm, recurrent and
// attention workspaces of cuDNN, and that of cuBLAS. The reasons for each rule and what it was held against are in
// docs/workspaces.md. No CUDA types: the estimator asks the same rules as the phantom.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "device/profile.h"
#include "graph/graph.h"

namespace ebbtide {

enum class ConvolutionPass : std::uint8_t { kForward, kDataGradient, kFilterGradient };

enum class ConvolutionType : std::uint8_t { kFloat16, kBFloat16, kFloat32, kFloat64, kInt8 };
Bytes ItemSize(ConvolutionType type);
// nullopt where cuDNN does not convolve numbers of that type.
std::optional<ConvolutionType> ConvolutionTypeOf(DType dtype);

// One convolution; a transposed one is its data gradient. Spatial vectors are of one length, 1 to 3.
struct ConvolutionProblem {
  ConvolutionPass pass = ConvolutionPass::kForward;
  ConvolutionType type = ConvolutionType::kFloat32;
  bool allows_tf32 = true;        // float32 products may be rounded to tf32
  bool is_channels_last = false;  // the input lies with its channels innermost
  std::int64_t batch = 1;
  std::int64_t in_channels = 1, out_channels = 1, groups = 1;
  std::vector<std::int64_t> input, filter, output;  // spatial
  std::vector<std::int64_t> stride, dilation;
};

// One way to compute a convolution.
struct ConvolutionEngine {
  const char* name = "";
  Bytes workspace = 0;
  bool uses_tensor_cores = false;
  bool is_deterministic = true;
  Nanos time = -1;  // for those who model it; < 0: not known
};

// In the order in which cuDNN's heuristics would offer them. Never empty; the last one takes no workspace.
std::vector<ConvolutionEngine> ConvolutionEngines(const ConvolutionProblem& problem, const DeviceProfile& profile);

// The workspace of the first of these engines, which a framework that does not benchmark takes.
Bytes ConvolutionWorkspace(const ConvolutionProblem& problem, const DeviceProfile& profile);

// The workspaces, largest last, of all the ways in which cuDNN can compute it: what a framework asks for, one after the
// other, that tries them out. Beside the engines above, forward also has the product of the filters with the image
// written out patch by patch.
std::vector<Bytes> SearchedWorkspaces(const ConvolutionProblem& problem, const DeviceProfile& profile);

// What batch norm takes: space for partial sums during a pass, and what it keeps from forward to backward.
struct BatchNormProblem {
  ConvolutionType type = ConvolutionType::kFloat32;
  bool is_channels_last = false;
  std::int64_t elements = 0, channels = 0;
  bool has_activation = false;  // a fused ReLU keeps a bit of each element
};
Bytes BatchNormForwardWorkspace(const BatchNormProblem& problem, const DeviceProfile& profile);
Bytes BatchNormBackwardWorkspace(const BatchNormProblem& problem, const DeviceProfile& profile);
Bytes BatchNormReserve(const BatchNormProblem& problem);

// A recurrent network on `batch` sequences of `length` steps.
struct RecurrentProblem {
  Bytes item_size = 4;
  std::int64_t gates = 4;      // 1: plain, 3: GRU, 4: LSTM
  bool has_cell_state = true;  // LSTM
  std::int64_t layers = 1, directions = 1;
  std::int64_t input_size = 0, hidden_size = 0, projection_size = 0;
  std::int64_t length = 0, batch = 0;
  bool has_dropout = false;  // between layers
  bool is_training = true;
};
Bytes RecurrentWorkspace(const RecurrentProblem& problem);
// What a training keeps from forward to backward.
Bytes RecurrentReserve(const RecurrentProblem& problem);
// The random states of cuDNN's dropout, one for each thread that the GPU holds.
Bytes DropoutStates(const DeviceProfile& profile);

// Probabilities of `classes` for `length` steps of `batch` sequences with labels of up to `longest_label`.
Bytes CtcWorkspace(Bytes item_size, std::int64_t length, std::int64_t batch, std::int64_t classes,
                   std::int64_t longest_label);

// What PyTorch gives a cuBLAS handle on each stream it is used on.
Bytes BlasWorkspace(const DeviceProfile& profile);

}  // namespace ebbtide
