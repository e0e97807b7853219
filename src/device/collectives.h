// What NCCL takes of a GPU's memory, and how long its collectives take, by rules that docs/dryrun.md tells the origin
// of. The phantom GPU and estimates both go by these.
#pragma once

#include <string_view>

#include "base/units.h"
#include "device/profile.h"
#include "graph/graph.h"

namespace ebbtide {

// The channels that NCCL opens by itself.
int NcclChannels(const DeviceProfile& profile);

// From a group's first collective on; 0 for a group of one.
Bytes NcclGroupBuffers(std::int64_t ranks, int channels);
// From the first send to or receive from a rank on.
Bytes NcclConnectionBuffers(int channels);

// How a group of ranks lies on machines.
struct Spread {
  double ranks = 1;
  double per_machine = 1;  // ranks of the group on one machine; all of them: no network is in between
};
// A group that lies evenly among `reach` ranks that follow each other, on machines of so many GPUs.
Spread SpreadOf(double ranks, double reach, double machine_gpus);

// Messages that a ring sends one behind the other; `kind` as ops of graphs have it: "all_reduce".
double RingMessages(std::string_view kind, double ranks);

// `moved` bytes over the link of one rank in `messages` messages, one behind the other. Rings pass each machine's
// border once: the ranks of a machine share its adapters, one for each GPU.
Nanos TransferTime(const DeviceProfile& profile, double moved, double messages, const Spread& spread);

// Of an op that IsCollective.
Nanos CollectiveTime(const DeviceProfile& profile, const Op& op);

}  // namespace ebbtide
