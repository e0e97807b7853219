// One call of a collective as a rank makes it, in the form in which it lies in memory that all ranks share.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace ebbtide::phantom {

enum class CallKind : std::int32_t {
  kAllReduce,
  kReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAlltoAll,
  kGather,
  kScatter,
  kSplit,
  kSend,
  kReceive,
};

const char* NameOf(CallKind kind);

struct Call {
  CallKind kind = CallKind::kAllReduce;
  std::int32_t type = 0;       // ncclDataType_t
  std::int32_t operation = 0;  // ncclRedOp_t; -1: one that the program made
  std::int32_t root = 0;       // or, of a send, the rank that it goes to
  std::uint64_t count = 0;     // as given to the call
  std::uint64_t index = 0;     // of a send: how many went to that rank before
  std::int64_t payload = -1;   // bytes of content that lie with it; -1: it is not known
  Nanos ready = 0;             // when the rank's stream was ready for it
  char line[200] = {};         // of the program; empty where it is not known
};

// Bytes of one element; 0 for a type that there is not.
Bytes SizeOfType(int type);

// "ncclAllReduce of 10 float32 (sum) at train.py:12"
std::string Describe(const Call& call);
// Whether two ranks may make these as the same collective.
bool Match(const Call& a, const Call& b);

}  // namespace ebbtide::phantom
