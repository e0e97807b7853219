// How long an op takes on a GPU: the time its arithmetic needs or the time its bytes need, whichever is longer, each at
// the share of the GPU's peak that kernels of its family reach. docs/op-times.md says where the shares come from.
#pragma once

#include <string_view>
#include <vector>

#include "device/profile.h"
#include "graph/graph.h"

namespace ebbtide {

enum class OpFamily : std::uint8_t {
  kNothing,  // allocates without touching the memory
  kConvolution,
  kConvolutionBackward,
  kMatrixProduct,
  kAttention,
  kRecurrent,
  kElementwise,
  kNormalization,
  kNormalizationBackward,
  kSoftmax,
  kPooling,
  kPoolingBackward,
  kReduction,
  kCopy,    // concatenation, padding, changes of layout
  kLookup,  // reads as much of its inputs as it writes
  kFamilies
};

// What kernels of a family reach.
struct FamilyEfficiency {
  OpFamily family = OpFamily::kElementwise;
  std::string_view name;
  double compute = 0;         // share of the peak FLOP/s without tensor cores, of one that fills the GPU
  double tensor_compute = 0;  // and with them
  double memory = 0;          // share of the memory bandwidth
  double input_passes = 1;    // how often the inputs are read
};
const FamilyEfficiency& EfficiencyOf(OpFamily family);

// By the kind, with or without a '_' at its end. A kind that is not known counts as elementwise.
OpFamily FamilyOf(std::string_view kind);

// Whether the op only yields views of its inputs, and changes none of them.
bool IsView(const TrainingGraph& graph, const Op& op);

struct OpTimeOptions {
  bool winograd = true;  // cuDNN has it from version 5 on
};

// The modelled time, whatever `op.time` says. 0 for views and for what only allocates.
Nanos ModelledTime(const TrainingGraph& graph, const Op& op, const DeviceProfile& profile,
                   const OpTimeOptions& options = {});

// What an op leaves to others while it runs.
struct GpuUse {
  double share = 0;  // of the GPU that its kernels keep busy: their blocks over those the GPU holds, at most 1
  Nanos launch = 0;  // of its time, the part in which nothing of it is on the GPU yet
};
GpuUse UseOf(const TrainingGraph& graph, const Op& op, const DeviceProfile& profile);

// The op's own time where it has one, else the modelled one.
inline Nanos OpTime(const TrainingGraph& graph, const Op& op, const DeviceProfile& profile) {
  return op.time > 0 ? op.time : ModelledTime(graph, op, profile);
}

// The time of every op, by its number. In a graph that brings times (some op has one), all are taken as they are, also
// those of 0.
std::vector<Nanos> OpTimes(const TrainingGraph& graph, const DeviceProfile& profile, const OpTimeOptions& options = {});

}  // namespace ebbtide
