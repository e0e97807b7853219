// NCCL of both generations: one rank, several in one process, and one of many.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/mman.h>

#include <array>
#include <bit>
#include <cstdlib>

#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

using Four = std::array<float, 4>;

struct Rank {
  Rank() {
    ncclUniqueId id;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&from), 1024), cudaSuccess);
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&to), 1024), cudaSuccess);
  }
  void Put(const Four& values) {
    EXPECT_EQ(cudaMemcpy(from, values.data(), sizeof(values), cudaMemcpyHostToDevice), cudaSuccess);
  }
  Four Received() {
    Four values{};
    EXPECT_EQ(cudaMemcpy(values.data(), to, sizeof(values), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }
  ncclComm_t comm = nullptr;
  float *from = nullptr, *to = nullptr;
};

TEST(Nccl, OneRankReceivesWhatItSends) {
  InFreshProcess({{"BACKED", "1MiB"}}, [] {
    Rank rank;
    rank.Put({1, 2, 3, 4});
    EXPECT_EQ(ncclAllReduce(rank.from, rank.to, 4, ncclFloat, ncclSum, rank.comm, nullptr), ncclSuccess);
    EXPECT_EQ(rank.Received(), (Four{1, 2, 3, 4}));
    rank.Put({5, 6, 7, 8});
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclSend(rank.from, 4, ncclFloat, 0, rank.comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclRecv(rank.to, 4, ncclFloat, 0, rank.comm, nullptr), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(rank.Received(), (Four{5, 6, 7, 8}));
    EXPECT_EQ(ncclSend(rank.from, 4, ncclFloat, 0, rank.comm, nullptr), ncclInvalidUsage);  // it would wait for ever
    int count = 0, number = 7;
    EXPECT_EQ(ncclCommCount(rank.comm, &count), ncclSuccess);
    EXPECT_EQ(ncclCommUserRank(rank.comm, &number), ncclSuccess);
    EXPECT_EQ(count, 1);
    EXPECT_EQ(number, 0);
    EXPECT_EQ(ncclBroadcast(rank.from, rank.to, 4, ncclFloat, 1, rank.comm, nullptr),
              ncclInvalidArgument);  // no rank 1
    EXPECT_EQ(ncclCommDestroy(rank.comm), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(rank.from, rank.to, 4, ncclFloat, ncclSum, rank.comm, nullptr), ncclInvalidArgument);
  });
}

// Two GPUs of one process, each a rank. One channel of NCCL takes 544 MiB / 24 of a GPU.
struct TwoRanks {
  TwoRanks() {
    EXPECT_EQ(ncclCommInitAll(comms.data(), 2, nullptr), ncclSuccess);
    for (int gpu = 0; gpu < 2; ++gpu) {
      EXPECT_EQ(cudaSetDevice(gpu), cudaSuccess);
      EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&from[gpu]), 1024), cudaSuccess);
      EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&to[gpu]), 1024), cudaSuccess);
      const Four values{1.0f + 9 * gpu, 2, 3, 4};
      EXPECT_EQ(cudaMemcpy(from[gpu], values.data(), sizeof(values), cudaMemcpyHostToDevice), cudaSuccess);
    }
  }
  ~TwoRanks() {
    for (ncclComm_t comm : comms) ncclCommDestroy(comm);
    shm_unlink("/ebbtide-phantom-nccl-test-nccl-board");
  }
  Four Received(int gpu, int at = 0) {
    Four values{};
    EXPECT_EQ(cudaSetDevice(gpu), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(values.data(), to[gpu] + at, sizeof(values), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }
  std::array<ncclComm_t, 2> comms{};
  std::array<float*, 2> from{}, to{};
};

const Variables kTwoGpus = {{"GPUS", "2"}, {"SHARED", "nccl-test"}};

TEST(Nccl, TwoRanksExchangeWhatIsSmall) {
  InFreshProcess(kTwoGpus, [] {
    setenv("NCCL_MAX_NCHANNELS", "1", 1);
    TwoRanks ranks;
    ncclGroupStart();
    for (int rank = 0; rank < 2; ++rank)
      EXPECT_EQ(ncclAllReduce(ranks.from[rank], ranks.to[rank], 4, ncclFloat, ncclSum, ranks.comms[rank], nullptr),
                ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks.Received(rank), (Four{11, 4, 6, 8}));
    ncclGroupStart();
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(ncclSend(ranks.from[rank], 4, ncclFloat, 1 - rank, ranks.comms[rank], nullptr), ncclSuccess);
      EXPECT_EQ(ncclRecv(ranks.to[rank], 4, ncclFloat, 1 - rank, ranks.comms[rank], nullptr), ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(ranks.Received(0), (Four{10, 2, 3, 4}));
    EXPECT_EQ(ranks.Received(1), (Four{1, 2, 3, 4}));
    int count = 0, number = 7;
    EXPECT_EQ(ncclCommCount(ranks.comms[1], &count), ncclSuccess);
    EXPECT_EQ(ncclCommCuDevice(ranks.comms[1], &number), ncclSuccess);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(number, 1);
  });
}

TEST(Nccl, RanksThatCallDifferentThingsAreTold) {
  Ended ended = RunToTheEnd(kTwoGpus, [] {
    setenv("NCCL_MAX_NCHANNELS", "1", 1);
    TwoRanks ranks;
    ncclGroupStart();
    EXPECT_EQ(ncclAllReduce(ranks.from[0], ranks.to[0], 4, ncclFloat, ncclSum, ranks.comms[0], nullptr), ncclSuccess);
    EXPECT_EQ(ncclAllGather(ranks.from[1], ranks.to[1], 4, ncclFloat, ranks.comms[1], nullptr), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  });
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.errors,
            "phantom: a mismatched collective, number 1 of a group of 2: rank 1 of the group calls ncclAllGather of 4 "
            "float32; rank 0 of the group calls ncclAllReduce of 4 float32 (sum)\n");
}

TEST(Nccl, TheOthersDoTheSameWhereTheyDoNotRun) {
  InFreshProcess({{"ALONE", "1"}}, [] {
    setenv("NCCL_MAX_NCHANNELS", "1", 1);
    ncclUniqueId id;
    ncclComm_t comm = nullptr;
    ncclGetUniqueId(&id);
    EXPECT_EQ(ncclCommInitRank(&comm, 4, id, 2), ncclSuccess);
    Rank buffers;
    buffers.Put({1, 2, 3, 4});
    EXPECT_EQ(ncclAllReduce(buffers.from, buffers.to, 4, ncclFloat, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_EQ(buffers.Received(), (Four{4, 8, 12, 16}));
    EXPECT_EQ(ncclAllGather(buffers.from, buffers.to, 4, ncclFloat, comm, nullptr), ncclSuccess);
    EXPECT_EQ(buffers.Received(), (Four{1, 2, 3, 4}));
  });
}

TEST(Content, SmallCopiesAreKnownUntilAKernelRuns) {
  InFreshProcess([] {
    Rank rank;
    rank.Put({1, 2, 3, 4});
    EXPECT_EQ(ncclAllGather(rank.from, rank.to, 4, ncclFloat, rank.comm, nullptr), ncclSuccess);
    EXPECT_EQ(rank.Received(), (Four{1, 2, 3, 4}));
    EXPECT_EQ(cudaMemset(rank.to, 1, 4), cudaSuccess);
    EXPECT_EQ(rank.Received(), (Four{std::bit_cast<float>(0x01010101), 2, 3, 4}));  // a fill is known as a copy is
    rank.Put({5, 6, 7, 8});
    ncclRedOp_t twice;
    float two = 2;
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&twice, &two, ncclFloat, ncclScalarHostImmediate, rank.comm), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(rank.from, rank.to, 4, ncclFloat, twice, rank.comm, nullptr), ncclSuccess);  // a kernel
    EXPECT_EQ(cudaMemcpy(rank.to, rank.from, 16, cudaMemcpyDeviceToDevice), cudaSuccess);
    EXPECT_EQ(rank.Received(), Four{});
  });
}

}  // namespace
}  // namespace ebbtide::phantom
