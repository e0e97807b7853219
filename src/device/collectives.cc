// Memory, assumed from what users saw: on GPUs with NVLink, 24 channels and 544 MiB for a group of two ranks, 688 MiB
// for a larger one (NCCL issue 964, A100), in proportion to the channels (issue 986); without NVLink 4 channels. A
// first send or receive with a rank connects it: for each of half of the channels one buffer of 10 MiB, the three
// protocols' together (4 MiB, 0.5 MiB and 4.7 MiB, rounded up to 2 MiB), and one of 2 MiB (issue 1685).
#include "device/collectives.h"

#include <algorithm>

namespace ebbtide {
namespace {

constexpr Bytes kOfTwoRanks = 544 * kMiB, kOfMoreRanks = 688 * kMiB, kOfConnection = 12 * kMiB;
constexpr int kChannelsByNvlink = 24, kChannelsByPcie = 4;

}  // namespace

int NcclChannels(const DeviceProfile& profile) {
  return profile.link_bandwidth > 0 ? kChannelsByNvlink : kChannelsByPcie;
}

Bytes NcclGroupBuffers(std::int64_t ranks, int channels) {
  return ranks <= 1 ? 0 : (ranks == 2 ? kOfTwoRanks : kOfMoreRanks) * channels / kChannelsByNvlink;
}

Bytes NcclConnectionBuffers(int channels) { return kOfConnection * std::max(channels / 2, 1); }

Nanos TransferTime(const DeviceProfile& profile, double moved, double messages, bool within) {
  const double bandwidth = within ? profile.LinkBandwidth() : profile.network_bandwidth;
  const Nanos latency = within ? profile.link_latency : profile.network_latency;
  return profile.launch_latency + static_cast<Nanos>(messages * static_cast<double>(latency) + moved / bandwidth * 1e9);
}

}  // namespace ebbtide
