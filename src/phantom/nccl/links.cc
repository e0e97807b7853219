// Device memory that NCCL takes for its channels, and what its algorithms take of the links.
//
// Memory, assumed from what users saw: on GPUs with NVLink, 24 channels and 544 MiB for a group of two ranks, 688 MiB
// for a larger one (NCCL issue 964, A100), in proportion to the channels (issue 986); without NVLink 4 channels. A
// first send or receive with a rank connects it: for each of half of the channels one buffer of 10 MiB, the three
// protocols' together (4 MiB, 0.5 MiB and 4.7 MiB, rounded up to 2 MiB), and one of 2 MiB (issue 1685).
#include <algorithm>
#include <cstdlib>

#include "phantom/core/device.h"
#include "phantom/nccl/communicator.h"

namespace ebbtide::phantom {
namespace {

constexpr Bytes kOfTwoRanks = 544 * kMiB, kOfMoreRanks = 688 * kMiB, kOfConnection = 12 * kMiB;
constexpr int kChannelsByNvlink = 24, kChannelsByPcie = 4;

// The program's own limits count, as NCCL reads them.
int Channels(const DeviceProfile& profile) {
  int channels = profile.link_bandwidth > 0 ? kChannelsByNvlink : kChannelsByPcie;
  for (const char* name : {"NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"})
    if (const char* most = std::getenv(name); most && std::atoi(most) > 0)
      channels = std::min(channels, std::atoi(most));
  return channels;
}

}  // namespace

Code TakeBuffers(Communicator& communicator, int peer) {
  Device& device = TheDevice();
  const int channels = Channels(device.profile);
  Bytes bytes = 0;
  {
    std::lock_guard lock(communicator.mutex);
    if (communicator.ranks == 1 || peer == communicator.rank) return Code::kSuccess;
    if (peer < 0 && !communicator.has_collective_buffers)
      bytes = (communicator.ranks == 2 ? kOfTwoRanks : kOfMoreRanks) * channels / kChannelsByNvlink;
    else if (peer >= 0 && !communicator.connected.contains(peer))
      bytes = kOfConnection * std::max(channels / 2, 1);
    if (bytes == 0) return Code::kSuccess;
    Gpu& gpu = device.gpu(communicator.gpu);
    if (!gpu.ledger.Take(bytes)) return Code::kOutOfMemory;
    if (peer < 0)
      communicator.has_collective_buffers = true;
    else
      communicator.connected.insert(peer);
    communicator.held += bytes;
    const Bytes now = gpu.nccl.fetch_add(bytes) + bytes;
    Bytes peak = gpu.nccl_peak.load();
    while (peak < now && !gpu.nccl_peak.compare_exchange_weak(peak, now)) {
    }
  }
  return Code::kSuccess;
}

Nanos DurationOf(const Communicator& communicator, const Call& call) {
  const DeviceProfile& profile = Profile();
  const bool within = communicator.ranks <= TheDevice().config.gpus;
  const double bandwidth = within ? profile.LinkBandwidth() : profile.network_bandwidth;
  const Nanos latency = within ? profile.link_latency : profile.network_latency;
  const double n = communicator.ranks;
  const double bytes = static_cast<double>(call.count) * static_cast<double>(SizeOfType(call.type));
  double moved = bytes, messages = 1;  // over the link of one rank
  switch (call.kind) {
    case CallKind::kAllReduce: moved = 2 * bytes * (n - 1) / n, messages = 2 * (n - 1); break;
    case CallKind::kReduceScatter:
    case CallKind::kAllGather:
    case CallKind::kAlltoAll:
    case CallKind::kGather:
    case CallKind::kScatter: moved = bytes * (n - 1), messages = n - 1; break;  // `count` is of one rank's part
    case CallKind::kReduce:
    case CallKind::kBroadcast: messages = n - 1; break;
    case CallKind::kSplit: moved = 0; break;
    case CallKind::kSend:
    case CallKind::kReceive: break;
  }
  return profile.launch_latency + static_cast<Nanos>(messages * static_cast<double>(latency) + moved / bandwidth * 1e9);
}

}  // namespace ebbtide::phantom
