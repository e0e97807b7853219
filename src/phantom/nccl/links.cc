// Device memory that NCCL takes for its channels, and what its algorithms take of the links.
#include <algorithm>
#include <cstdlib>

#include "device/collectives.h"
#include "phantom/core/device.h"
#include "phantom/nccl/communicator.h"

namespace ebbtide::phantom {
namespace {

// The program's own limits count, as NCCL reads them.
int Channels(const DeviceProfile& profile) {
  int channels = NcclChannels(profile);
  for (const char* name : {"NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"})
    if (const char* most = std::getenv(name); most && std::atoi(most) > 0)
      channels = std::min(channels, std::atoi(most));
  return channels;
}

// NCCL is not told which ranks of the run a group has. One that fits a machine is taken to lie on one; a larger one
// lies evenly among all ranks.
double Reach(double ranks) {
  if (ranks <= TheDevice().config.gpus) return ranks;
  const char* world = std::getenv("WORLD_SIZE");
  return world != nullptr ? std::max(ranks, std::atof(world)) : ranks;
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
      bytes = NcclGroupBuffers(communicator.ranks, channels);
    else if (peer >= 0 && !communicator.connected.contains(peer))
      bytes = NcclConnectionBuffers(channels);
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
  return TransferTime(profile, moved, messages, SpreadOf(n, Reach(n), TheDevice().config.gpus));
}

}  // namespace ebbtide::phantom
