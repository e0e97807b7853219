// What is said of a collective is said in its arguments, so that files of graphs carry it.
#include "graph/collective.h"

#include "graph/arguments.h"

namespace ebbtide {
namespace {

constexpr const char* kMoved = "moved_bytes";
constexpr const char *kRanks = "group_size", *kGroup = "group_name", *kReach = "group_reach";
constexpr const char* kStream = "rank_stream";
constexpr const char *kGather = "gather", *kReduce = "reduce";

}  // namespace

void MarkCollective(Op& op, Bytes moved, Stream stream, const RankGroup& group) {
  op.arguments.push_back({kMoved, moved});
  op.arguments.push_back({kRanks, group.ranks});
  op.arguments.push_back({kGroup, group.name});
  if (group.reach > group.ranks) op.arguments.push_back({kReach, group.reach});
  SetStream(op, stream);
}

void SetStream(Op& op, Stream stream) {
  if (stream != Stream::kCompute)
    op.arguments.push_back({kStream, std::string(stream == Stream::kGather ? kGather : kReduce)});
}

bool IsCollective(const Op& op) { return ArgumentAs<std::int64_t>(op, kMoved) != nullptr; }

Bytes MovedBytes(const Op& op) {
  const std::int64_t* bytes = ArgumentAs<std::int64_t>(op, kMoved);
  return bytes == nullptr ? 0 : *bytes;
}

RankGroup GroupOf(const Op& op) {
  if (!IsCollective(op)) return {};
  const std::int64_t* ranks = ArgumentAs<std::int64_t>(op, kRanks);
  const std::string* name = ArgumentAs<std::string>(op, kGroup);
  const std::int64_t* reach = ArgumentAs<std::int64_t>(op, kReach);
  return {name == nullptr ? "" : *name, ranks == nullptr ? 1 : *ranks, reach == nullptr ? 0 : *reach};
}

bool IsPointToPoint(const Op& op) { return IsCollective(op) && (op.kind == "send" || op.kind == "recv"); }

Stream StreamOf(const Op& op) {
  const std::string* stream = ArgumentAs<std::string>(op, kStream);
  if (stream == nullptr) return Stream::kCompute;
  return *stream == kGather ? Stream::kGather : *stream == kReduce ? Stream::kReduce : Stream::kCompute;
}

}  // namespace ebbtide
