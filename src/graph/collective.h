// Ops by which ranks talk to each other: how much each moves over the links, and in which of the rank's queues it runs.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace ebbtide {

// A rank's queues. PyTorch's allocator keeps the memory of each apart: what an op makes is memory of its stream.
enum class Stream : std::uint8_t { kCompute, kGather, kReduce };

// Ranks that talk to each other. Groups of one name are one group.
struct RankGroup {
  std::string name;  // the axis: "data", "tp"
  std::int64_t ranks = 1;
  // It lies evenly among so many ranks that follow each other; 0: `ranks`. Of 8 ranks by twos, a group that takes every
  // second has 4 ranks and a reach of 8.
  std::int64_t reach = 0;
  auto operator<=>(const RankGroup&) const = default;
};

// The op moves so many bytes between ranks, on that stream. Called once for an op.
void MarkCollective(Op& op, Bytes moved, Stream stream, const RankGroup& group);
// An op that moves nothing between ranks runs on that stream.
void SetStream(Op& op, Stream stream);

// The bytes that pass the link of one rank; 0 of ops that are no collectives.
Bytes MovedBytes(const Op& op);
// Who takes part; one rank and no name for ops that are no collectives.
RankGroup GroupOf(const Op& op);
// One that speaks to one other rank: "send", "recv".
bool IsPointToPoint(const Op& op);
// kCompute of all that is not marked. What is on another stream runs beside computation.
Stream StreamOf(const Op& op);
bool IsCollective(const Op& op);

}  // namespace ebbtide
