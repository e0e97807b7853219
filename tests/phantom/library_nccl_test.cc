// NCCL of both generations, with one rank: what it sends is what it receives.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <array>
#include <bit>

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

TEST(Nccl, MoreRanksAreRefused) {
  Ended ended = RunToTheEnd({}, [] {
    ncclUniqueId id;
    ncclComm_t comm = nullptr;
    ncclGetUniqueId(&id);
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidUsage);
    EXPECT_EQ(comm, nullptr);
    EXPECT_STREQ(ncclGetLastError(nullptr), "phantom: NCCL with more than one rank is not modelled");
  });
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.errors, "phantom: NCCL with more than one rank is not modelled\n");
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
