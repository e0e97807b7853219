// A training as MXNet's storage manager sees it: what binding an executor allocates, and what its first step adds.
#pragma once

#include "device/profile.h"
#include "estimate/sink.h"
#include "estimate/training.h"
#include "graph/graph.h"

namespace ebbtide::estimate {

// Tells `sink` what it asks for, until it has ended or the sink has run out of memory. The graph is MXNet's.
// Memory is planned before the first step, so that iterations after it ask for nothing.
void RunMxnetTraining(const TrainingGraph& graph, const DeviceProfile& gpu, const TrainingOptions& options, Sink& sink);

// The temporary space that all ops share: the most that one of them asks for, convolutions within the limit of their
// `workspace` attribute.
Bytes MxnetTemporarySpace(const TrainingGraph& graph, const DeviceProfile& gpu);

}  // namespace ebbtide::estimate
