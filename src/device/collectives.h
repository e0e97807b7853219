// What NCCL takes of a GPU's memory, and how long its collectives take, by rules that docs/dryrun.md tells the origin
// of. The phantom GPU and estimates both go by these.
#pragma once

#include "base/units.h"
#include "device/profile.h"

namespace ebbtide {

// The channels that NCCL opens by itself.
int NcclChannels(const DeviceProfile& profile);

// From a group's first collective on; 0 for a group of one.
Bytes NcclGroupBuffers(std::int64_t ranks, int channels);
// From the first send to or receive from a rank on.
Bytes NcclConnectionBuffers(int channels);

// `moved` bytes over the link of one rank in `messages` messages, one behind the other. `within`: all ranks are of one
// machine.
Nanos TransferTime(const DeviceProfile& profile, double moved, double messages, bool within);

}  // namespace ebbtide
