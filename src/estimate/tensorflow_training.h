// A training as TensorFlow's allocator sees it: variables, then the executor's steps, kernel by kernel.
#pragma once

#include "device/profile.h"
#include "estimate/sink.h"
#include "estimate/training.h"
#include "graph/graph.h"

namespace ebbtide::estimate {

// Tells `sink` what it asks for, until it has ended or the sink has run out of memory. The graph is
// TensorFlow's: its order is the executor's, and buffers that kernels hand on are tensors of one storage.
void RunTensorflowTraining(const TrainingGraph& graph, const DeviceProfile& gpu, const TrainingOptions& options,
                           Sink& sink);

// What a kernel takes beside its results, in order and all at once: a convolution the filter in cuDNN's layout, an
// image that is padded unevenly in full, and cuDNN's workspace.
std::vector<Bytes> TensorflowScratch(const TrainingGraph& graph, const Op& op, const DeviceProfile& gpu);

// Most bytes that one step's variables and results take in chunks of the BFC allocator, without scratch memory and the
// batch: what TensorFlow's allocator tells of a step on the CPU, whose kernels need other scratch memory.
Bytes TensorflowTensorPeak(const TrainingGraph& graph);

// Memory that TensorFlow leaves to the system when it decides what its allocator may hold.
Bytes TensorflowSystemReserve(const DeviceProfile& gpu);

}  // namespace ebbtide::estimate
