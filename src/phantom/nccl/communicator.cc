// Making communicators, asking them, and memory for them. What NCCL allocates for its own buffers is not published and
// not counted.
#include "phantom/nccl/communicator.h"

#include <sys/random.h>

#include <cstdlib>
#include <cstring>

#include "phantom/core/device.h"

using namespace ebbtide::phantom;

namespace {

#if EBBTIDE_CUDA_GENERATION >= 13
constexpr int kVersion = NCCL_VERSION_CODE;
#else
constexpr int kVersion = 22105;  // that of torch 2.6
#endif

thread_local const char* last_error = "";

ncclUniqueId MakeId() {
  ncclUniqueId id{};
  // Not std::random_device, which would have a wheel ask for a newer glibc. So few bytes come at once.
  if (getrandom(id.internal, 32, 0) != 32) std::abort();
  return id;
}

ncclResult_t Make(ncclComm_t* out, int ranks, int rank, const ncclUniqueId& id) {
  if (!out) return Refuse(ncclInvalidArgument, "no place for the communicator");
  if (ncclResult_t result = CheckRanks(ranks, rank); result != ncclSuccess) return result;
  if (Code code = TheDevice().contexts.Use(); code != Code::kSuccess) return FromCode(code);
  std::shared_ptr<Communicator> made = Communicators().Create();
  made->id = id;
  *out = reinterpret_cast<ncclComm_t>(made.get());
  return ncclSuccess;
}

bool IsConfig(const ncclConfig_t* config) { return !config || config->magic == NCCL_API_MAGIC; }

ncclResult_t Remove(ncclComm_t comm) {
  if (!comm) return ncclSuccess;
  return Communicators().Remove(comm) ? ncclSuccess : Refuse(ncclInvalidArgument, "not a communicator");
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

ncclResult_t Refuse(ncclResult_t result, const char* why) {
  last_error = why;
  return result;
}

ncclResult_t CheckRanks(int ranks, int rank) {
  if (ranks < 1 || rank < 0 || rank >= ranks) return Refuse(ncclInvalidArgument, "a rank that is not among the ranks");
  if (ranks == 1) return ncclSuccess;
  NotModelled("NCCL with more than one rank");
  return Refuse(ncclInvalidUsage, "phantom: NCCL with more than one rank is not modelled");
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
  return Make(out, ranks, rank, id);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommInitRankConfig", ranks, rank);
  if (!IsConfig(config)) return Refuse(ncclInvalidArgument, "a configuration that was not initialized");
  return Make(out, ranks, rank, id);
}

#if EBBTIDE_CUDA_GENERATION >= 13
ncclResult_t ncclCommInitRankScalable(ncclComm_t* out, int ranks, int rank, int id_count, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommInitRankScalable", ranks, rank);
  if (!IsConfig(config)) return Refuse(ncclInvalidArgument, "a configuration that was not initialized");
  if (id_count < 1 || !ids) return Refuse(ncclInvalidArgument, "no unique id");
  return Make(out, ranks, rank, ids[0]);
}
#endif

ncclResult_t ncclCommInitAll(ncclComm_t* out, int devices, const int* numbers) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommInitAll", devices);
  if (devices == 1 && numbers && numbers[0] != 0) return Refuse(ncclInvalidArgument, "there is one device, number 0");
  return Make(out, devices, 0, MakeId());
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  EBB_PHANTOM_CALL(FromCode, "ncclCommSplit", comm, color, key);
  COMMUNICATOR(parent, comm);
  if (!out || !IsConfig(config) || color < NCCL_SPLIT_NOCOLOR) return Refuse(ncclInvalidArgument, "invalid argument");
  if (color == NCCL_SPLIT_NOCOLOR) {
    *out = nullptr;
    return ncclSuccess;
  }
  return Make(out, 1, 0, parent->id);
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

// A number that is the same for every communicator of one rank.
#define QUERY(name, value)                             \
  ncclResult_t name(const ncclComm_t comm, int* out) { \
    EBB_PHANTOM_CALL(FromCode, #name, comm);           \
    COMMUNICATOR(found, comm);                         \
    if (!out) return ncclInvalidArgument;              \
    *out = value;                                      \
    return ncclSuccess;                                \
  }
QUERY(ncclCommCount, 1)
QUERY(ncclCommUserRank, 0)
QUERY(ncclCommCuDevice, 0)

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

const char* ncclGetLastError(ncclComm_t) { return last_error; }

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
