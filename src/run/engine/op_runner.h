// What runs the ops of a graph: PyTorch, or a stand-in of the tests. The engine says where everything lies.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"

namespace ebbtide::run {

// Why a step came to nothing.
struct Failure {
  // kKept: an op has let something of the pool outlive it, so the pool must never be freed.
  enum class Kind { kOutOfMemory, kInterrupted, kKept, kOther };
  Kind kind = Kind::kOther;
  std::string message;
};
using RunStatus = tl::expected<void, Failure>;

// Device memory for an op while it runs.
class OpMemory {
 public:
  virtual ~OpMemory() = default;
  // Returns null where there is no memory left.
  virtual void* Allocate(std::size_t bytes) = 0;
  // Returns false where the address is not of this memory.
  virtual bool Release(void* address) = 0;
};

// A storage that an op has made.
struct Made {
  StorageId storage;
  std::byte* at = nullptr;  // in memory that the op was given
  Bytes bytes = 0;
};

class OpRunner {
 public:
  virtual ~OpRunner() = default;

  // Calls the op. What it makes and needs meanwhile comes from `memory`; `made` has the storages that it makes, in the
  // order of sim::Workload::births. Those keep their contents until memory's next Allocate.
  virtual RunStatus Run(OpId op, std::span<const double> scalars, OpMemory& memory, std::vector<Made>& made) = 0;
  // From now on the storage's tensors lie at `at`. Null: nowhere.
  virtual void Bind(StorageId storage, std::byte* at) = 0;

  // The state that random ops draw from.
  virtual std::size_t RandomBytes() = 0;
  virtual void SaveRandom(std::byte* to) = 0;
  virtual void LoadRandom(const std::byte* from) = 0;
};

}  // namespace ebbtide::run
