// What a call looks like to people, and which of them belong together.
#include "phantom/nccl/call.h"

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

namespace ebbtide::phantom {
namespace {

const char* const kKindNames[] = {"ncclAllReduce", "ncclReduce",   "ncclReduceScatter", "ncclAllGather",
                                  "ncclBroadcast", "ncclAlltoAll", "ncclGather",        "ncclScatter",
                                  "ncclCommSplit", "ncclSend",     "ncclRecv"};

struct TypeRow {
  int type;
  Bytes size;
  const char* name;
};
constexpr TypeRow kTypes[] = {
    {ncclInt8, 1, "int8"},         {ncclUint8, 1, "uint8"},       {ncclInt32, 4, "int32"},
    {ncclUint32, 4, "uint32"},     {ncclInt64, 8, "int64"},       {ncclUint64, 8, "uint64"},
    {ncclFloat16, 2, "float16"},   {ncclFloat32, 4, "float32"},   {ncclFloat64, 8, "float64"},
    {ncclBfloat16, 2, "bfloat16"}, {ncclFloat8e4m3, 1, "float8"}, {ncclFloat8e5m2, 1, "float8"},
};
constexpr const char* kOperations[] = {"sum", "product", "max", "min", "average"};

bool Reduces(CallKind kind) {
  return kind == CallKind::kAllReduce || kind == CallKind::kReduce || kind == CallKind::kReduceScatter;
}

bool HasRoot(CallKind kind) {
  return kind == CallKind::kReduce || kind == CallKind::kBroadcast || kind == CallKind::kGather ||
         kind == CallKind::kScatter;
}

}  // namespace

const char* NameOf(CallKind kind) { return kKindNames[static_cast<int>(kind)]; }

Bytes SizeOfType(int type) {
  for (const TypeRow& row : kTypes)
    if (row.type == type) return row.size;
  return 0;
}

std::string Describe(const Call& call) {
  std::string text = NameOf(call.kind);
  if (call.kind != CallKind::kSplit) {
    text += " of " + std::to_string(call.count);
    for (const TypeRow& row : kTypes)
      if (row.type == call.type) text += std::string(" ") + row.name;
  }
  if (Reduces(call.kind))
    text += std::string(" (") +
            (call.operation >= 0 && call.operation < 5 ? kOperations[call.operation] : "a reduction of its own") + ")";
  if (HasRoot(call.kind)) text += ", root " + std::to_string(call.root);
  if (call.kind == CallKind::kSend) text += " to rank " + std::to_string(call.root);
  if (call.kind == CallKind::kReceive) text += " from rank " + std::to_string(call.root);
  if (call.line[0] != '\0') text += std::string(" at ") + call.line;
  return text;
}

bool Match(const Call& a, const Call& b) {
  if (a.kind == CallKind::kSend || a.kind == CallKind::kReceive)
    return static_cast<Bytes>(a.count) * SizeOfType(a.type) == static_cast<Bytes>(b.count) * SizeOfType(b.type);
  if (a.kind != b.kind || a.type != b.type || a.count != b.count) return false;
  if (Reduces(a.kind) && a.operation != b.operation) return false;
  return !HasRoot(a.kind) || a.root == b.root;
}

}  // namespace ebbtide::phantom
