// The collectives, sends and receives as functions of the library.
#include "phantom/nccl/communicator.h"

using namespace ebbtide::phantom;

namespace {

ncclResult_t Start(CallKind kind, const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                   ncclComm_t comm, cudaStream_t stream, int operation = 0) {
  std::shared_ptr<Communicator> communicator = Communicators().Find(comm);
  if (!communicator) return Refuse(ncclInvalidArgument, "not a communicator");
  if (root < 0 || root >= communicator->ranks) return Refuse(ncclInvalidArgument, "a root that is not among the ranks");
  if (operation < 0 || operation >= communicator->operations)
    return Refuse(ncclInvalidArgument, "an unknown reduction");
  Transfer transfer{.call = {}, .from = from, .to = to, .communicator = std::move(communicator), .stream = stream};
  transfer.call.kind = kind;
  transfer.call.type = type;
  transfer.call.operation = operation < ncclNumOps ? operation : -1;
  transfer.call.root = root;
  transfer.call.count = count;
  return Enqueue(std::move(transfer));
}

}  // namespace

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclAllReduce", from, to, count, type, operation, comm, stream);
  return Start(CallKind::kAllReduce, from, to, count, type, 0, comm, stream, operation);
}

ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclReduce", from, to, count, type, operation, root, comm, stream);
  return Start(CallKind::kReduce, from, to, count, type, root, comm, stream, operation);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t comm, cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclReduceScatter", from, to, count, type, operation, comm, stream);
  return Start(CallKind::kReduceScatter, from, to, count, type, 0, comm, stream, operation);
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclAllGather", from, to, count, type, comm, stream);
  return Start(CallKind::kAllGather, from, to, count, type, 0, comm, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclBroadcast", from, to, count, type, root, comm, stream);
  return Start(CallKind::kBroadcast, from, to, count, type, root, comm, stream);
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclBcast", buffer, count, type, root, comm, stream);
  return Start(CallKind::kBroadcast, buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclSend", from, count, type, peer, comm, stream);
  return Start(CallKind::kSend, from, nullptr, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclRecv", to, count, type, peer, comm, stream);
  return Start(CallKind::kReceive, nullptr, to, count, type, peer, comm, stream);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* operation, void* scalar, ncclDataType_t type, ncclScalarResidence_t,
                                      ncclComm_t comm) {
  EBB_PHANTOM_CALL(FromCode, "ncclRedOpCreatePreMulSum", type, comm);
  std::shared_ptr<Communicator> communicator = Communicators().Find(comm);
  if (!communicator || !operation || !scalar || SizeOfType(type) == 0)
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
  return Start(CallKind::kAlltoAll, from, to, count, type, 0, comm, stream);
}

ncclResult_t ncclGather(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclGather", from, to, count, type, root, comm, stream);
  return Start(CallKind::kGather, from, to, count, type, root, comm, stream);
}

ncclResult_t ncclScatter(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                         cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "ncclScatter", from, to, count, type, root, comm, stream);
  return Start(CallKind::kScatter, from, to, count, type, root, comm, stream);
}
#endif
