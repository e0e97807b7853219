// Memory that CUDA's kernels and libraries take while an op runs, beside its tensors.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "device/profile.h"
#include "graph/graph.h"

namespace ebbtide::estimate {

// Scratch memory of one op: taken when `after_results` of the op's own results are there, and freed when
// `until_results` are and as many of its next scratch requests as it outlives have been made.
struct Scratch {
  static constexpr std::size_t kWholeOp = std::numeric_limits<std::size_t>::max();

  std::size_t after_results = 0;
  Bytes bytes = 0;
  std::size_t until_results = 0;  // kWholeOp: it goes when the op has ended
  std::size_t outlives = 0;
};

// In the order in which the op takes them.
std::vector<Scratch> ScratchOf(const TrainingGraph& graph, const Op& op, const DeviceProfile& gpu);

// One convolution that cuDNN computes for an op: a forward pass, or one of backward's two.
struct LibraryConvolution {
  std::size_t after_results = 0;  // of the op, when it runs
  std::string problem;            // equal where the convolutions are
  Bytes most_workspace = 0;       // of all its engines
};

// In the order in which the op runs them; none where PyTorch's own kernels do.
std::vector<LibraryConvolution> LibraryConvolutionsOf(const TrainingGraph& graph, const Op& op,
                                                      const DeviceProfile& gpu);

// What a matrix product takes for the time of the call, where the framework keeps no workspace between calls.
Bytes BlasScratchOf(const TrainingGraph& graph, const Op& op, const DeviceProfile& gpu);

// Whether the op's scratch memory is known: a rule counts it, or ops of its kind need none, where its tensors lie as
// the rule has them. Else it is what was measured (Op::workspace), if that was.
bool KnowsScratchOf(const TrainingGraph& graph, const Op& op);

// The same for many ops: what follows from a kind alone is looked up once.
class ScratchKnowledge {
 public:
  bool Of(const TrainingGraph& graph, const Op& op);

 private:
  enum class Kind : std::uint8_t { kByLayout, kNeedsNone, kUnknown };
  std::unordered_map<std::string_view, Kind> kinds_;  // refer to names of ops, which outlive this
};

// Whether the op multiplies matrices by cuBLAS, whose handle then has a workspace for good, one for each thread that
// has a handle: forward runs in the program's, backward in autograd's.
bool UsesCublas(const Op& op);

}  // namespace ebbtide::estimate
