// Inside libnccl: communicators of one rank. The header of NCCL 2.30 serves both generations: torch for CUDA 12.4 comes
// with 2.21, whose functions have the same shapes and whose configurations are beginnings of the newer ones.
#pragma once

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#include <atomic>
#include <memory>

#include "phantom/core/api.h"

namespace ebbtide::phantom {

struct Communicator {
  ncclUniqueId id{};
  std::atomic<int> operations{ncclNumOps};  // numbers of reductions that were made for it come after the built-in ones
};

Handles<Communicator>& Communicators();

ncclResult_t FromCode(Code code);

// Returns `result`, and keeps `why` as what ncclGetLastError says to this thread.
ncclResult_t Refuse(ncclResult_t result, const char* why);

// Refuses everything but one rank. A number of ranks below 1, and a rank outside of it, are errors of the program.
ncclResult_t CheckRanks(int ranks, int rank);

}  // namespace ebbtide::phantom
