// What makes a TrainingGraph a valid one. Every stage after the front ends relies on these laws.
//
//   Ids        refer to storages, tensors, ops and scalars that exist.
//   Sizes      are not negative; a tensor's elements lie within its storage; sums over the whole graph (bytes of all
//              storages plus the largest workspace, FLOPs, times) fit 64 bits.
//   Order      an op reads tensors that an earlier op yielded, or that nothing yields and whose storage is
//              persistent. Hence no cycles.
//   Production a tensor is yielded at most once. A storage that is not persistent is produced by exactly one op:
//              the first that yields a tensor of it; every later op that yields one was given one, as was every op
//              that yields a tensor of a persistent storage (state that a first step would create exists before).
//   Mutation   changes inputs only.
//   Release    nothing touches a storage after the op `released_after`. Persistent storages and those of `outputs`
//              outlive the step and have none.
//   Arguments  name tensors among the op's inputs and outputs, have distinct names, and are at most kMostArguments.
//   Text       is UTF-8.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "graph/graph.h"

namespace ebbtide {

// No operator has a tenth of this; files that claim more only cost memory.
inline constexpr std::size_t kMostArguments = 1000;

// The first law that the graph breaks, and where: "ops[17] (mm, fc): inputs[1]: expected ...". Linear in the graph.
Status Check(const TrainingGraph& graph);

}  // namespace ebbtide
