// Memory, assumed from what users saw: on GPUs with NVLink, 24 channels and 544 MiB for a group of two ranks, 688 MiB
// for a larger one (NCCL issue 964, A100), in proportion to the channels (issue 986); without NVLink 4 channels. A
// first send or receive with a rank connects it: for each of half of the channels one buffer of 10 MiB, the three
// protocols' together (4 MiB, 0.5 MiB and 4.7 MiB, rounded up to 2 MiB), and one of 2 MiB (issue 1685).
#include "device/collectives.h"

#include <algorithm>
#include <cmath>

#include "graph/collective.h"

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

Spread SpreadOf(double ranks, double reach, double machine_gpus) {
  reach = std::max(reach, ranks);
  if (reach <= machine_gpus) return {ranks, ranks};
  return {ranks, std::max(1.0, std::floor(machine_gpus * ranks / reach))};
}

double RingMessages(std::string_view kind, double ranks) {
  if (kind == "send" || kind == "recv") return 1;
  return (kind == "all_reduce" ? 2 : 1) * (ranks - 1);
}

Nanos TransferTime(const DeviceProfile& profile, double moved, double messages, const Spread& spread) {
  double bandwidth = profile.LinkBandwidth();
  auto latency = static_cast<double>(profile.link_latency);
  if (spread.per_machine < spread.ranks) {
    bandwidth = std::min(bandwidth, profile.network_bandwidth * spread.per_machine);
    latency += (static_cast<double>(profile.network_latency) - latency) / spread.per_machine;
  }
  const double nanos = messages * latency + moved / bandwidth * 1e9;
  // Sums of times over a graph stay within 64 bits.
  return profile.launch_latency + std::llround(std::min(nanos, 1e15));
}

Nanos CollectiveTime(const DeviceProfile& profile, const Op& op) {
  const RankGroup group = GroupOf(op);
  const auto ranks = static_cast<double>(group.ranks);
  const Spread spread = SpreadOf(ranks, static_cast<double>(group.reach), static_cast<double>(profile.machine_gpus));
  return TransferTime(profile, static_cast<double>(MovedBytes(op)), RingMessages(op.kind, ranks), spread);
}

}  // namespace ebbtide
