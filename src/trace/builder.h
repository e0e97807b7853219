// Puts a recording of torch's allocator together, entry by entry, and checks that it could have happened.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "trace/trace.h"

namespace ebbtide::trace {

class TraceBuilder {
 public:
  TraceBuilder(std::string path, std::string place_name);

  // The stream of that name in the file; a new one when it is first asked for.
  StreamId Stream(std::string_view name);
  // All initial segments come before the first entry. Their blocks must fill them.
  Status AddInitial(InitialSegment segment);
  // An entry of torch's history: its action by torch's name. Unknown actions that touch no memory are passed over.
  Status Add(std::string_view action, Address address, Bytes bytes, std::string_view stream, std::int64_t place);
  // The trace. Nothing is added afterwards.
  Trace Take() { return std::move(trace_); }

 private:
  struct Live {
    Address end = 0;
    std::int32_t block = -1;
    bool leaving = false;  // freed, but used by other streams
  };
  using LiveBlocks = std::map<Address, Live>;

  tl::unexpected<Error> Wrong(std::int64_t place, const std::string& message) const;
  Status Begin(Address address, Bytes bytes, std::int32_t block, std::int64_t place);
  Result<LiveBlocks::iterator> Find(Address address, std::string_view action, std::int64_t place);
  TraceEvent& Append(Action action, std::int64_t place);

  Trace trace_;
  LiveBlocks live_;
  std::unordered_map<std::string, StreamId> streams_;
};

}  // namespace ebbtide::trace
