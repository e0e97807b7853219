// The cluster at one moment, as policies see it: who is where, and what is left.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "cluster/cluster.h"
#include "cluster/rates.h"

namespace ebbtide::cluster {

// A job on a GPU.
struct Slot {
  std::size_t job = 0, kind = 0;
  Bytes memory = 0;    // what it takes
  Bytes reserved = 0;  // what its policy has set aside for it
  std::int64_t milli = 0;
  double rate = 1;  // its speed on this GPU, beside its speed alone
};

struct Gpu {
  std::size_t node = 0, type = 0;
  std::vector<Slot> slots;
  Bytes taken = 0, reserved = 0;  // sums over the slots
  std::int64_t milli_free = kWholeGpu;
  double busy = 0;        // part of it in use, 0 to 1
  bool closed = false;    // someone has it to itself, or is waited for
  double settled_at = 0;  // a policy that waits until a new job shows what it takes looks at it from then on

  bool empty() const { return slots.empty(); }
};

struct NodeState {
  std::size_t first = 0;  // of its GPUs
  int gpus = 0;
  std::int64_t cpu_free = 0, memory_free = 0;
  std::uint32_t version = 1;  // counts its changes
};

// Jobs together on a GPU, by the model of rates.h.
struct Mix {
  std::vector<std::size_t> kinds;  // sorted
  std::vector<double> rates;       // of each
  double busy = 0;                 // part of the GPU in use
  double sum = 0;                  // of the rates

  double RateOf(std::size_t kind) const;
};

struct State {
  State(const Hardware& hardware, const Workload& workload);

  const Hardware& hardware;
  const Workload& workload;
  std::vector<Gpu> gpus;
  std::vector<NodeState> nodes;
  double now = 0;

  const Kind& kind(std::size_t number) const { return workload.kinds[number]; }
  const OnGpu& on(std::size_t kind, const Gpu& gpu) const { return workload.kinds[kind].on[gpu.type]; }
  Bytes memory(const Gpu& gpu) const { return hardware.types[gpu.type].memory; }
  // The host has room for it.
  bool HostFits(const NodeState& node, const Kind& kind) const {
    return kind.cpu_milli <= node.cpu_free && kind.memory_mib <= node.memory_free;
  }
  // As the other is, of the same hardware and kinds.
  void TakeOver(const State& other) { gpus = other.gpus, nodes = other.nodes, now = other.now, mixes_ = other.mixes_; }
  // Those on the GPU, without those by share, as nobody slows them down; `more`: with one of this kind. Holds until the
  // next call.
  const Mix& MixOn(const Gpu& gpu, std::size_t more = kNone) const;
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

 private:
  using Mixes = std::map<std::pair<std::size_t, std::vector<std::size_t>>, Mix>;
  std::shared_ptr<Mixes> mixes_ =
      std::make_shared<Mixes>();  // the same come again and again; copies have them in common
};

}  // namespace ebbtide::cluster
