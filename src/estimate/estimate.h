// How much device memory a training takes, before it runs   ◀ start reading here
//
// The graph's requests in the order in which PyTorch makes them (training.h), the scratch memory of CUDA's libraries
// (scratch.h), through a model of its allocator (src/alloc), beside the context.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "alloc/make.h"
#include "device/profile.h"
#include "estimate/sink.h"
#include "estimate/training.h"
#include "graph/graph.h"

namespace ebbtide::estimate {

struct Options {
  DeviceProfile gpu;
  alloc::AllocatorChoice allocator;
  TrainingOptions training;
  bool keep_timeline = false;
};

// One moment of the run, told by what was requested.
struct Moment {
  std::array<Bytes, kCategories> by_category{};
  Bytes rounding = 0;  // blocks are larger than what was asked for
  Bytes cached = 0;    // taken from the device, in no block that is in use
  std::int64_t iteration = 0;
  OpId op;  // during which it was; invalid: between ops

  Bytes requested() const;
  Bytes reserved() const { return requested() + rounding + cached; }
};

// A request and when it lived, counted in requests and frees.
struct TimedRequest {
  Request request;
  std::int64_t begin = 0, end = 0;  // half-open; end == Timeline::events: it was never freed
};
struct Level {
  std::int64_t at = 0;
  Bytes reserved = 0;  // from that event on
};
struct Timeline {
  std::int64_t events = 0;
  std::vector<TimedRequest> requests;
  std::vector<Level> reserved;
  std::vector<std::int64_t> iterations;  // the event each begins with
};

struct Estimate {
  bool fits = true;
  // Where the job does not fit, these are what it would take of a device that is large enough.
  Bytes peak_reserved = 0, peak_allocated = 0;
  Bytes end_allocated = 0;  // when the last iteration is over
  Bytes context = 0;
  Bytes context_margin = 0;  // by how much more a context may take, where none was measured on the GPU
  Bytes loaded_code = 0;     // kernels and library handles
  Bytes communication = 0;   // NCCL's buffers, outside of the framework's allocator
  Bytes capacity = 0;        // of the device
  Moment at_peak;            // the first time that so much was reserved
  Moment at_allocated_peak;
  // The largest that no parameter, buffer, gradient, state or input lies in, of each stream, summed up: a stream has
  // memory of its own.
  Bytes largest_passing_blocks = 0;
  std::int64_t device_allocations = 0;
  Timeline timeline;

  Bytes total() const { return peak_reserved + loaded_code + communication + context; }
};

// The graph passes Check. That the training does not fit is an answer and not an error.
Estimate EstimateTraining(const TrainingGraph& graph, const Options& options);

}  // namespace ebbtide::estimate
