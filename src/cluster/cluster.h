// Jobs that many GPUs are asked for, and the GPUs: what the simulator of a cluster and its policies speak of.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide::cluster {

// Thousandths of one GPU: all of it.
inline constexpr std::int64_t kWholeGpu = 1000;

struct GpuType {
  std::string name;
  Bytes memory = 0;  // of all processes together, their contexts among it
};

struct Node {
  std::size_t type = 0;  // of its GPUs, which are alike
  int gpus = 0;
  std::int64_t cpu_milli = std::numeric_limits<std::int64_t>::max();   // thousandths of a core
  std::int64_t memory_mib = std::numeric_limits<std::int64_t>::max();  // of the host
};

struct Hardware {
  std::vector<GpuType> types;
  std::vector<Node> nodes;

  std::int64_t gpus() const;
};

// What a job is on a GPU of one type.
struct OnGpu {
  Bytes memory = 0;      // what it takes of each GPU, its context among it: the simulated truth
  Bytes estimate = 0;    // what it is predicted to take
  Bytes reserve = 0;     // what a scheduler sets aside that goes by the prediction: with its margin
  double speed = 1;      // beside the GPU that its work was counted on
  double kernels = 1;    // of its time alone, the part in which a kernel of it is on the GPU
  double gpu_share = 1;  // of the GPU that its kernels keep busy, in the mean while they run
};

// Jobs that are alike but for when they come and how long they take.
struct Kind {
  std::string name;
  int gpus = 1;  // all of one node; 0: a job without a GPU
  // What it asks of each GPU, in thousandths, where the trace says that in place of a model; it then has as much of the
  // GPU, and is neither slowed down nor out of memory. 0: it goes by memory.
  std::int64_t gpu_milli = 0;
  std::int64_t cpu_milli = 0, memory_mib = 0;
  Bytes declared = 0;     // what its user says that it takes; 0: nothing
  std::vector<OnGpu> on;  // by type of GPU; empty for kinds with `gpu_milli`, and without GPUs
  bool by_share() const { return gpu_milli > 0 || gpus == 0; }
};

struct Job {
  std::string name;
  std::size_t kind = 0;
  double arrival = 0;   // seconds
  double work = 0;      // seconds that it takes alone, on the GPU that it was counted on
  double foretold = 1;  // what it is predicted to take, beside its work
  double expected() const { return foretold * work; }
};

struct Workload {
  std::vector<Kind> kinds;
  std::vector<Job> jobs;  // in the order of their arrivals
};

// "4x8xa100-40gb": nodes, GPUs of each, and the GPU; several behind each other with commas between. `memory_of` tells
// the memory of a GPU by its name.
struct NodeGroup {
  std::int64_t nodes = 0;
  int gpus = 0;
  std::string gpu;
};
Result<std::vector<NodeGroup>> ParseNodes(const std::string& text);

}  // namespace ebbtide::cluster
