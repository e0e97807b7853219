// Who listens to a training's requests: the estimate itself, a timeline, a test.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/units.h"
#include "graph/collective.h"
#include "graph/graph.h"

namespace ebbtide::estimate {

// Names of torch's MemTracker, and what libraries take for themselves.
enum class Category : std::uint8_t {
  kParameter,
  kBuffer,
  kGradient,
  kOptimizerState,
  kInput,
  kActivation,
  kTemporary,
  kWorkspace
};
inline constexpr std::size_t kCategories = 8;
Category CategoryOf(StorageKind kind);

using RequestId = Id<struct RequestTag>;

struct Request {
  Bytes bytes = 0;
  Category category = Category::kTemporary;
  StorageId storage;                 // invalid: scratch memory of an op or a library
  OpId op;                           // during which it is made; invalid: between the ops
  Stream stream = Stream::kCompute;  // whose memory it is
};

class Sink {
 public:
  virtual ~Sink() = default;
  // Requests are numbered as they come, from 0. False: out of memory; nothing is asked for any more.
  virtual bool Allocate(const Request& request) = 0;
  virtual void Free(RequestId request) = 0;
  virtual void BeginIteration(std::int64_t /*iteration*/) {}

  // Memory that is asked for and given back at once while ways to compute `op` are tried out; that there is none is no
  // harm. It has no number.
  enum class From : std::uint8_t { kAllocator, kDevice };  // of the framework, or past it
  virtual void Try(Bytes /*bytes*/, OpId /*op*/, From /*from*/) {}

  // The framework gives back to the device what it has in no block that is in use.
  virtual void EmptyCache() {}
};

}  // namespace ebbtide::estimate
