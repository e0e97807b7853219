// Operations of one rank: what it sends is what it receives. So they copy in stream order where the two buffers differ
// and are nothing where they do not; a reduction with a factor is a kernel.
#include <vector>

#include "phantom/core/copy.h"
#include "phantom/core/device.h"
#include "phantom/nccl/communicator.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

Bytes SizeOf(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return 1;
    default: return 0;
  }
}

struct Transfer {
  const char* name = "";
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  cudaStream_t stream = nullptr;
  ncclComm_t comm = nullptr;
};

// Checks a transfer and gives its size; 0 bytes are nothing to do.
ncclResult_t Check(const Transfer& transfer, Bytes& bytes) {
  if (!Communicators().Find(transfer.comm)) return Refuse(ncclInvalidArgument, "not a communicator");
  Bytes size = SizeOf(transfer.type);
  if (size == 0) return Refuse(ncclInvalidArgument, "an unknown data type");
  if (transfer.count > static_cast<std::size_t>(ebbtide::kTooLarge / size))
    return Refuse(ncclInvalidArgument, "too many elements");
  bytes = static_cast<Bytes>(transfer.count) * size;
  if (!IsStream(transfer.stream)) return Refuse(ncclInvalidArgument, "not a stream");
  return ncclSuccess;
}

ncclResult_t CopyOver(const Transfer& transfer) {
  Bytes bytes = 0;
  if (ncclResult_t result = Check(transfer, bytes); result != ncclSuccess) return result;
  if (bytes == 0 || transfer.from == transfer.to) return ncclSuccess;
  if (!transfer.from || !transfer.to) return Refuse(ncclInvalidArgument, "no buffer");
  Device& device = TheDevice();
  return FromCode(Copy(device, *device.streams.Find(transfer.stream),
                       {.name = transfer.name,
                        .to = reinterpret_cast<Address>(transfer.to),
                        .from = reinterpret_cast<Address>(transfer.from),
                        .width = bytes}));
}

ncclResult_t ReduceOver(const Transfer& transfer, ncclRedOp_t operation) {
  std::shared_ptr<Communicator> communicator = Communicators().Find(transfer.comm);
  if (!communicator) return Refuse(ncclInvalidArgument, "not a communicator");
  if (operation < ncclSum || operation >= communicator->operations)
    return Refuse(ncclInvalidArgument, "an unknown reduction");
  if (operation < ncclNumOps) return CopyOver(transfer);
  Bytes bytes = 0;
  if (ncclResult_t result = Check(transfer, bytes); result != ncclSuccess || bytes == 0) return result;
  return FromCode(Launch(transfer.name, transfer.stream));
}

ncclResult_t CheckRoot(int root) {
  return root == 0 ? ncclSuccess : Refuse(ncclInvalidArgument, "a root that is not among the ranks");
}

// Sends and receives of this thread whose group is still open.
struct Group {
  int depth = 0;
  std::vector<Transfer> sends, receives;
};
thread_local Group group;

// The n-th send to a rank meets its n-th receive, in each communicator.
ncclResult_t Match() {
  std::vector<Transfer> sends = std::move(group.sends), receives = std::move(group.receives);
  group.sends.clear();
  group.receives.clear();
  for (const Transfer& send : sends) {
    auto receive = receives.begin();
    while (receive != receives.end() && receive->comm != send.comm) ++receive;
    if (receive == receives.end()) return Refuse(ncclInvalidUsage, "a send to the own rank that nothing receives");
    if (receive->count != send.count || receive->type != send.type)
      return Refuse(ncclInvalidUsage, "a send and its receive differ in size");
    Transfer both = send;
    both.to = receive->to;
    if (ncclResult_t result = CopyOver(both); result != ncclSuccess) return result;
    receives.erase(receive);
  }
  return receives.empty() ? ncclSuccess : Refuse(ncclInvalidUsage, "a receive from the own rank that nothing sends");
}

ncclResult_t Enqueue(std::vector<Transfer>& queue, const Transfer& transfer, int peer) {
  if (ncclResult_t result = CheckRoot(peer); result != ncclSuccess) return result;
  Bytes bytes = 0;
  if (ncclResult_t result = Check(transfer, bytes); result != ncclSuccess) return result;
  queue.push_back(transfer);
  return group.depth > 0 ? ncclSuccess : Match();  // alone it would wait for ever
}

}  // namespace

ncclResult_t ncclGroupStart() {
  EBB_PHANTOM_CALL(FromCode, "ncclGroupStart");
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  EBB_PHANTOM_CALL(FromCode, "ncclGroupEnd");
  if (group.depth == 0) return Refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  return --group.depth > 0 ? ncclSuccess : Match();
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclAllReduce", from, to, count, type, operation, comm, stream);
  return ReduceOver({"ncclAllReduce", from, to, count, type, stream, comm}, operation);
}

ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclReduce", from, to, count, type, operation, root, comm, stream);
  if (ncclResult_t result = CheckRoot(root); result != ncclSuccess) return result;
  return ReduceOver({"ncclReduce", from, to, count, type, stream, comm}, operation);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t comm, cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclReduceScatter", from, to, count, type, operation, comm, stream);
  return ReduceOver({"ncclReduceScatter", from, to, count, type, stream, comm}, operation);
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclAllGather", from, to, count, type, comm, stream);
  return CopyOver({"ncclAllGather", from, to, count, type, stream, comm});
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclBroadcast", from, to, count, type, root, comm, stream);
  if (ncclResult_t result = CheckRoot(root); result != ncclSuccess) return result;
  return CopyOver({"ncclBroadcast", from, to, count, type, stream, comm});
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclBcast", buffer, count, type, root, comm, stream);
  if (ncclResult_t result = CheckRoot(root); result != ncclSuccess) return result;
  return CopyOver({"ncclBcast", buffer, buffer, count, type, stream, comm});
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclSend", from, count, type, peer, comm, stream);
  return Enqueue(group.sends, {"ncclSend", from, nullptr, count, type, stream, comm}, peer);
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclRecv", to, count, type, peer, comm, stream);
  return Enqueue(group.receives, {"ncclRecv", nullptr, to, count, type, stream, comm}, peer);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* operation, void* scalar, ncclDataType_t type, ncclScalarResidence_t,
                                      ncclComm_t comm) {
  EBB_PHANTOM_CALL(FromCode, "ncclRedOpCreatePreMulSum", type, comm);
  std::shared_ptr<Communicator> communicator = Communicators().Find(comm);
  if (!communicator || !operation || !scalar || SizeOf(type) == 0)
    return Refuse(ncclInvalidArgument, "invalid argument");
  *operation = static_cast<ncclRedOp_t>(communicator->operations.fetch_add(1));
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t operation, ncclComm_t comm) {
  EBB_PHANTOM_CALL(FromCode, "ncclRedOpDestroy", operation, comm);
  std::shared_ptr<Communicator> communicator = Communicators().Find(comm);
  bool made = communicator && operation >= ncclNumOps && operation < communicator->operations;
  return made ? ncclSuccess : Refuse(ncclInvalidArgument, "not a reduction that was made");
}

#if EBBTIDE_CUDA_GENERATION >= 13
ncclResult_t ncclAlltoAll(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclAlltoAll", from, to, count, type, comm, stream);
  return CopyOver({"ncclAlltoAll", from, to, count, type, stream, comm});
}

ncclResult_t ncclGather(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclGather", from, to, count, type, root, comm, stream);
  if (ncclResult_t result = CheckRoot(root); result != ncclSuccess) return result;
  return CopyOver({"ncclGather", from, to, count, type, stream, comm});
}

ncclResult_t ncclScatter(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                         cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclScatter", from, to, count, type, root, comm, stream);
  if (ncclResult_t result = CheckRoot(root); result != ncclSuccess) return result;
  return CopyOver({"ncclScatter", from, to, count, type, stream, comm});
}
#endif
