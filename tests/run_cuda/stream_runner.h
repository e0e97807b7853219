// FakeRunner's ops, each run by the phantom in the order of its stream, when its turn comes.
#pragma once

#include <cuda.h>

#include <deque>
#include <memory>
#include <vector>

#include "phantom/core/declare.h"
#include "tests/support/fake_runner.h"

namespace ebbtide::run {

// Where the content of phantom memory lies; null of null.
inline std::byte* ContentOf(const void* address, Bytes bytes) {
  if (!address || bytes == 0) return nullptr;
  return static_cast<std::byte*>(ebbtide_phantom_content(address, static_cast<std::size_t>(bytes)));
}

class StreamRunner final : public OpRunner {
 public:
  StreamRunner(const TrainingGraph& graph, CUstream stream);

  RunStatus Run(OpId op, std::span<const double> scalars, OpMemory& memory, std::vector<Made>& made) override;
  void Bind(StorageId storage, std::byte* at) override { at_[storage] = at; }
  std::size_t RandomBytes() override { return sizeof random_; }
  void SaveRandom(std::byte* to) override { std::memcpy(to, &random_, sizeof random_); }
  void LoadRandom(const std::byte* from) override { std::memcpy(&random_, from, sizeof random_); }

 private:
  struct Call {
    StreamRunner* runner;
    OpId op;
    std::vector<double> scalars;
    std::vector<std::pair<StorageId, std::byte*>> places;  // contents
    std::vector<std::byte*> memory;                        // what it is given, in order: contents
    std::uint64_t random;
  };
  static void Execute(void* call);

  const TrainingGraph& graph_;
  const CUstream stream_;
  FakeRunner runner_;  // used by the stream
  sim::Workload workload_;
  IdVector<StorageId, std::byte*> at_;
  std::uint64_t random_ = 1;
  std::deque<Call> calls_;  // kept: what was captured runs again
};

}  // namespace ebbtide::run
