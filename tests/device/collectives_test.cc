// Times of collectives by rings, with their arithmetic.
#include "device/collectives.h"

#include <gtest/gtest.h>

#include "device/op_time.h"
#include "graph/collective.h"

namespace ebbtide {
namespace {

// 100 bytes per microsecond to GPUs of the machine, 10 over the network for each of its two GPUs.
DeviceProfile RoundGpu() {
  DeviceProfile gpu;
  gpu.launch_latency = 7;
  gpu.link_bandwidth = 1e8;
  gpu.link_latency = 3;
  gpu.network_bandwidth = 1e7;
  gpu.network_latency = 13;
  gpu.machine_gpus = 2;
  return gpu;
}

Nanos TimeOf(const char* kind, Bytes moved, const RankGroup& group) {
  TrainingGraph graph;
  Op op;
  op.kind = kind;
  MarkCollective(op, moved, Stream::kReduce, group);
  return ModelledTime(graph, op, RoundGpu());
}

TEST(Collectives, OfOneMachineGoOverItsLinks) {
  EXPECT_EQ(TimeOf("all_gather_into_tensor", 1000, {"data", 2}), 7 + 3 + 10'000);
  EXPECT_EQ(TimeOf("all_reduce", 1000, {"data", 2}), 7 + 2 * 3 + 10'000);
  EXPECT_EQ(TimeOf("send", 1000, {"pp", 2}), 7 + 3 + 10'000);
}

TEST(Collectives, OfSeveralMachinesShareTheirAdapters) {
  // Both GPUs of a machine are of the group: two adapters, and every second of 3 messages passes the network.
  EXPECT_EQ(TimeOf("all_gather_into_tensor", 1000, {"data", 4}), 7 + 3 * (3 + 13) / 2 + 50'000);
  // Every second rank of 8 that follow each other: one of each machine.
  EXPECT_EQ(TimeOf("all_gather_into_tensor", 1000, {"data", 4, 8}), 7 + 3 * 13 + 100'000);
}

TEST(Collectives, WithoutNvlinkGoAsCopiesToTheHostDo) {
  DeviceProfile gpu = RoundGpu();
  gpu.link_bandwidth = 0;
  gpu.device_to_host_bandwidth = 5e7;
  EXPECT_EQ(TransferTime(gpu, 1000, 1, SpreadOf(2, 2, 8)), 7 + 3 + 20'000);
}

}  // namespace
}  // namespace ebbtide
