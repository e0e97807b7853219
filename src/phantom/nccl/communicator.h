// Inside libnccl: communicators. The header of NCCL 2.30 serves both generations: torch for CUDA 12.4 comes with 2.21,
// whose functions have the same shapes and whose configurations are beginnings of the newer ones.
#pragma once

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "phantom/core/api.h"
#include "phantom/core/pending.h"
#include "phantom/nccl/meeting.h"

namespace ebbtide::phantom {

struct Communicator {
  ncclUniqueId id{};
  int ranks = 1, rank = 0;
  int gpu = 0;                              // by which the process knows it
  std::atomic<int> operations{ncclNumOps};  // numbers of reductions that were made for it come after the built-in ones
  std::shared_ptr<Meeting> meeting;         // null: one rank, or the others do not run and do as this one does
  std::atomic<bool> left{false};
  std::atomic<bool> all_here{false};  // every rank has come to the meeting once

  std::mutex mutex;                                      // of all below
  std::map<int, std::uint64_t> sent, received;           // by rank: how many
  std::map<Bytes, std::vector<std::byte>> last_sent;     // by size, where the others do not run
  std::map<std::uint64_t, std::weak_ptr<Pending>> open;  // collectives that are not over, by number
  std::uint64_t last_number = 0;
  int children = 0;  // splits and shrinks so far
  bool has_collective_buffers = false;
  std::set<int> connected;  // ranks that it has exchanged sends with
  Bytes held = 0;           // of device memory
};

Handles<Communicator>& Communicators();

ncclResult_t FromCode(Code code);

// Returns `result`, and keeps `why` as what ncclGetLastError says to this thread.
ncclResult_t Refuse(ncclResult_t result, const std::string& why);

// Refuses a number of ranks below 1, and a rank outside of it.
ncclResult_t CheckRanks(int ranks, int rank);

// A communicator of these ranks, on the GPU of the thread. Waits for the other ranks unless `waits` is false.
ncclResult_t MakeCommunicator(ncclComm_t* out, int ranks, int rank, const ncclUniqueId& id, bool waits = true);
// Waits until all ranks have come.
void WaitForAllRanks(Communicator& communicator);

// Leaves the meeting and gives the device memory back.
void Leave(Communicator& communicator);

// ---- links.cc: what NCCL takes of the device, and of time

// Device memory for a first collective, or a first exchange with `peer` (-1: collectives).
Code TakeBuffers(Communicator& communicator, int peer);
// What a call takes once all ranks have come to it.
Nanos DurationOf(const Communicator& communicator, const Call& call);

// ---- content.cc

// What is known of device memory; false: nothing, or not all.
bool ReadContent(const void* address, Bytes bytes, std::byte* out);
// It is known now; null: nothing is known of it any more.
void WriteContent(void* address, Bytes bytes, const std::byte* data);
// result (op)= other, element by element. False: types or operations whose result is not computed.
bool Reduce(std::byte* result, const std::byte* other, std::uint64_t count, int type, int operation);
// The end of an average: divides.
bool Divide(std::byte* result, std::uint64_t count, int type, int by);

// ---- group.cc

struct Transfer {
  Call call;
  const void* from = nullptr;
  void* to = nullptr;
  std::shared_ptr<Communicator> communicator;
  cudaStream_t stream = nullptr;
};
// Submits a call, at once or with the group that is open in this thread.
ncclResult_t Enqueue(Transfer transfer);
bool GroupIsOpen();
// Done when the group ends: waiting for ranks of communicators that were made in it.
void AtGroupEnd(std::shared_ptr<Communicator> communicator);

}  // namespace ebbtide::phantom
