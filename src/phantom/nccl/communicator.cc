// Making communicators, asking them, and memory for them.
#include "phantom/nccl/communicator.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "phantom/core/device.h"
#include "phantom/core/mix.h"
#include "phantom/core/program.h"
#include "phantom/nccl/board.h"

using namespace ebbtide::phantom;

namespace {

#if EBBTIDE_CUDA_GENERATION >= 13
constexpr int kVersion = NCCL_VERSION_CODE;
#else
constexpr int kVersion = 22105;  // that of torch 2.6
#endif

thread_local std::string last_error;

ncclUniqueId MakeId() {
  ncclUniqueId id{};
  // Not std::random_device, which would have a wheel ask for a newer glibc. So few bytes come at once.
  if (getrandom(id.internal, 32, 0) != 32) std::abort();
  return id;
}

// A communicator that every rank of `parent` makes at the same place of its program has the same id.
ncclUniqueId ChildId(const ncclUniqueId& parent, std::uint64_t number, std::uint64_t part) {
  ncclUniqueId id{};
  for (int i = 0; i < 4; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, parent.internal + i * 8, 8);
    word = MixBits(MixBits(MixBits(word, number), part), static_cast<std::uint64_t>(i) + 1);
    std::memcpy(id.internal + i * 8, &word, 8);
  }
  return id;
}

std::string MeetingName(const ncclUniqueId& id) {
  std::string name = Board::Prefix();
  for (int i = 0; i < 32; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(id.internal[i]));
    name += digits;
  }
  return name;
}

bool IsConfig(const ncclConfig_t* config) { return !config || config->magic == NCCL_API_MAGIC; }

ncclResult_t Remove(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  std::shared_ptr<Communicator> removed = Communicators().Remove(comm);
  if (!removed) return Refuse(ncclInvalidArgument, "not a communicator");
  Leave(*removed);
  return ncclSuccess;
}

// Where each rank says which part it wants and in which order: those of its part, in the order of their keys.
std::vector<int> PartOf(Communicator& parent, int color, int key, std::uint64_t& number) {
  struct Wish {
    std::int32_t color, key;
  };
  const Wish own{color, key};
  Call call;
  call.kind = CallKind::kSplit;
  call.payload = sizeof(Wish);
  std::snprintf(call.line, sizeof(call.line), "%s", ProgramLine().c_str());
  Meeting& meeting = *parent.meeting;
  const std::uint64_t place = meeting.Collective(parent.rank, call, reinterpret_cast<const std::byte*>(&own));
  {
    std::lock_guard lock(parent.mutex);
    parent.last_number = place;
    number = static_cast<std::uint64_t>(++parent.children);
  }
  WaitInMeeting(meeting, parent.rank, Describe(call), [&] {
    std::vector<int> missing;
    for (int rank = 0; rank < parent.ranks; ++rank)
      if (!meeting.PostOf(rank, place)) missing.push_back(rank);
    return missing;
  });
  std::vector<std::pair<int, int>> members;
  for (int rank = 0; rank < parent.ranks; ++rank) {
    const Meeting::Post* post = meeting.PostOf(rank, place);
    if (!Match(call, Meeting::CallOf(post))) {
      const std::string text = "a mismatched collective: " + meeting.NameOfRank(parent.rank) + " calls " +
                               Describe(call) + "; " + meeting.NameOfRank(rank) + " calls " +
                               Describe(Meeting::CallOf(post));
      meeting.Fault(text);
      EndWithFault(text);
    }
    Wish wish;
    std::memcpy(&wish, Meeting::PayloadOf(post), sizeof(wish));
    if (wish.color == color) members.emplace_back(wish.key, rank);
  }
  meeting.Done(parent.rank, place);
  std::sort(members.begin(), members.end());
  std::vector<int> ranks;
  for (const auto& [order, rank] : members) ranks.push_back(rank);
  return ranks;
}

}  // namespace

namespace ebbtide::phantom {

Handles<Communicator>& Communicators() {
  static auto* communicators = new Handles<Communicator>;
  return *communicators;
}

ncclResult_t FromCode(Code code) {
  switch (code) {
    case Code::kSuccess: return ncclSuccess;
    case Code::kInvalidValue:
    case Code::kInvalidHandle: return Refuse(ncclInvalidArgument, "invalid argument");
    case Code::kOutOfMemory: return Refuse(ncclUnhandledCudaError, "out of memory");
    default: return Refuse(ncclUnhandledCudaError, "the device failed");
  }
}

ncclResult_t Refuse(ncclResult_t result, const std::string& why) {
  last_error = why;
  return result;
}

ncclResult_t CheckRanks(int ranks, int rank) {
  return ranks >= 1 && rank >= 0 && rank < ranks ? ncclSuccess
                                                 : Refuse(ncclInvalidArgument, "a rank that is not among the ranks");
}

ncclResult_t MakeCommunicator(ncclComm_t* out, int ranks, int rank, const ncclUniqueId& id, bool waits) {
  if (!out) return Refuse(ncclInvalidArgument, "no place for the communicator");
  if (ncclResult_t result = CheckRanks(ranks, rank); result != ncclSuccess) return result;
  Device& device = TheDevice();
  if (Code code = device.contexts.Use(); code != Code::kSuccess) return FromCode(code);
  std::shared_ptr<Communicator> made = Communicators().Create();
  made->id = id;
  made->ranks = ranks;
  made->rank = rank;
  made->gpu = CurrentGpu();
  if (ranks > 1 && !device.config.alone) {
    if (const std::string error = Meeting::Join(MeetingName(id), ranks, rank, made->meeting); !error.empty()) {
      SayFault(error);
      Communicators().Remove(made.get());
      return Refuse(ncclInvalidUsage, error);
    }
    Board::OfThisRun().Progress();
    if (GroupIsOpen())
      AtGroupEnd(made);
    else if (waits)
      WaitForAllRanks(*made);
  }
  *out = reinterpret_cast<ncclComm_t>(made.get());
  return ncclSuccess;
}

void WaitForAllRanks(Communicator& communicator) {
  if (!communicator.meeting || communicator.all_here) return;
  const std::string line = ProgramLine();
  WaitInMeeting(*communicator.meeting, communicator.rank,
                "the making of a communicator of " + std::to_string(communicator.ranks) + " ranks" +
                    (line.empty() ? "" : " at " + line),
                [&] {
                  std::vector<int> missing;
                  for (int rank = 0; rank < communicator.ranks; ++rank)
                    if (!communicator.meeting->IsHere(rank)) missing.push_back(rank);
                  return missing;
                });
  communicator.all_here = true;
}

void Leave(Communicator& communicator) {
  if (communicator.left.exchange(true)) return;
  if (communicator.meeting) communicator.meeting->Leave(communicator.rank);
  std::lock_guard lock(communicator.mutex);
  if (communicator.held == 0) return;
  Gpu& gpu = TheDevice().gpu(communicator.gpu);
  gpu.ledger.Give(communicator.held);
  gpu.nccl -= communicator.held;
  communicator.held = 0;
}

}  // namespace ebbtide::phantom

#define COMMUNICATOR(variable, handle)                                   \
  std::shared_ptr<Communicator> variable = Communicators().Find(handle); \
  if (!variable) return Refuse(ncclInvalidArgument, "not a communicator")

ncclResult_t ncclGetVersion(int* version) {
  EBB_PHANTOM_CALL(FromCode, "ncclGetVersion");
  if (!version) return ncclInvalidArgument;
  *version = kVersion;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  EBB_PHANTOM_CALL(FromCode, "ncclGetUniqueId");
  if (!id) return ncclInvalidArgument;
  *id = MakeId();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* out, int ranks, ncclUniqueId id, int rank) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommInitRank", ranks, rank);
  return MakeCommunicator(out, ranks, rank, id);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommInitRankConfig", ranks, rank);
  if (!IsConfig(config)) return Refuse(ncclInvalidArgument, "a configuration that was not initialized");
  return MakeCommunicator(out, ranks, rank, id);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* out, int ranks, int rank, int id_count, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommInitRankScalable", ranks, rank);
  if (!IsConfig(config)) return Refuse(ncclInvalidArgument, "a configuration that was not initialized");
  if (id_count < 1 || !ids) return Refuse(ncclInvalidArgument, "no unique id");
  return MakeCommunicator(out, ranks, rank, ids[0]);
}

ncclResult_t ncclCommInitAll(ncclComm_t* out, int devices, const int* numbers) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommInitAll", devices);
  if (!out || devices < 1) return Refuse(ncclInvalidArgument, "no communicators to make");
  for (int i = 0; i < devices; ++i)
    if (!IsGpu(numbers ? numbers[i] : i)) return Refuse(ncclInvalidArgument, "there is no such device");
  const ncclUniqueId id = MakeId();
  Contexts& contexts = TheDevice().contexts;
  const int before = CurrentGpu();
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < devices && result == ncclSuccess; ++i) {
    if (Code code = contexts.UseGpu(numbers ? numbers[i] : i); code != Code::kSuccess) return FromCode(code);
    result = MakeCommunicator(&out[i], devices, i, id, false);
  }
  contexts.UseGpu(before);
  return result;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommSplit", comm, color, key);
  COMMUNICATOR(parent, comm);
  if (!out || !IsConfig(config) || color < NCCL_SPLIT_NOCOLOR) return Refuse(ncclInvalidArgument, "invalid argument");
  *out = nullptr;
  std::vector<int> ranks = {parent->rank};
  std::uint64_t number = 0;
  if (parent->meeting) {
    ranks = PartOf(*parent, color, key, number);
  } else if (parent->ranks > 1) {
    NotModelled("ncclCommSplit among ranks that do not run");
    return Refuse(ncclInvalidUsage, "phantom: which ranks that do not run would be in the part is not known");
  }
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  const auto own = std::find(ranks.begin(), ranks.end(), parent->rank);
  return MakeCommunicator(out, static_cast<int>(ranks.size()), static_cast<int>(own - ranks.begin()),
                          ChildId(parent->id, number, static_cast<std::uint64_t>(color)));
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* out, ncclConfig_t* config,
                            int flags) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommShrink", comm, count, flags);
  COMMUNICATOR(parent, comm);
  if (!out || !IsConfig(config) || count < 0 || (count > 0 && !excluded))
    return Refuse(ncclInvalidArgument, "invalid argument");
  std::vector<int> left;
  std::uint64_t part = 0;
  for (int rank = 0; rank < parent->ranks; ++rank) {
    const bool stays = std::find(excluded, excluded + count, rank) == excluded + count;
    if (stays) left.push_back(rank);
    part = MixBits(part, stays);
  }
  const auto own = std::find(left.begin(), left.end(), parent->rank);
  if (own == left.end()) return Refuse(ncclInvalidUsage, "an excluded rank cannot shrink");
  std::uint64_t number = 0;
  {
    std::lock_guard lock(parent->mutex);
    number = static_cast<std::uint64_t>(++parent->children);
  }
  return MakeCommunicator(out, static_cast<int>(left.size()), static_cast<int>(own - left.begin()),
                          ChildId(parent->id, number, part));
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommFinalize", comm);
  COMMUNICATOR(found, comm);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommDestroy", comm);
  return Remove(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommAbort", comm);
  return Remove(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommGetAsyncError", comm);
  COMMUNICATOR(found, comm);
  if (!error) return ncclInvalidArgument;
  *error = LostDevice() == Code::kSuccess ? ncclSuccess : ncclUnhandledCudaError;
  return ncclSuccess;
}

#define QUERY(name, value)                             \
  ncclResult_t name(const ncclComm_t comm, int* out) { \
    EBB_PHANTOM_CALL(FromCode, #name, comm);           \
    COMMUNICATOR(found, comm);                         \
    if (!out) return ncclInvalidArgument;              \
    *out = value;                                      \
    return ncclSuccess;                                \
  }
QUERY(ncclCommCount, found->ranks)
QUERY(ncclCommUserRank, found->rank)
QUERY(ncclCommCuDevice, found->gpu)

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommRegister", comm, buffer, bytes);
  COMMUNICATOR(found, comm);
  if (!buffer || bytes == 0 || !handle) return Refuse(ncclInvalidArgument, "no memory to register");
  *handle = buffer;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommDeregister", comm, handle);
  COMMUNICATOR(found, comm);
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** out, size_t bytes) {
  EBB_PHANTOM_CALL(FromCode, "ncclMemAlloc", bytes);
  if (!out || bytes == 0 || bytes > static_cast<std::size_t>(ebbtide::kTooLarge)) return ncclInvalidArgument;
  return FromCode(AllocateDevice(static_cast<ebbtide::Bytes>(bytes), out));
}

ncclResult_t ncclMemFree(void* pointer) {
  EBB_PHANTOM_CALL(FromCode, "ncclMemFree", pointer);
  return FromCode(FreeDevice(pointer));
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "operation in progress";
    default: return "unknown result code";
  }
}
