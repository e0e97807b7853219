// Ops that are arithmetic on bytes: what an op makes depends on its number and on every byte it reads, so that a
// wrong, stale or torn storage shows in all that follows.
#pragma once

#include <cstring>
#include <map>
#include <vector>

#include "graph/graph.h"
#include "run/engine/op_runner.h"
#include "sim/workload.h"

namespace ebbtide::run {

// The random state after one draw.
std::uint64_t NextRandom(std::uint64_t state);

class FakeRunner final : public OpRunner {
 public:
  explicit FakeRunner(const TrainingGraph& graph) : graph_(graph), at_(graph.storages.size()) {
    workload_ = sim::MakeWorkload(graph_, std::vector<Nanos>(graph.ops.size()), {.alignment = 1});
  }

  RunStatus Run(OpId op, std::span<const double> scalars, OpMemory& memory, std::vector<Made>& made) override;
  void Bind(StorageId storage, std::byte* at) override { at_[storage] = at; }
  std::size_t RandomBytes() override { return sizeof random_; }
  void SaveRandom(std::byte* to) override { std::memcpy(to, &random_, sizeof random_); }
  void LoadRandom(const std::byte* from) override { std::memcpy(&random_, from, sizeof random_); }

  // Ask first for as much as the op's first result takes, and let it go, so that the result is asked for second; keep
  // it until the result is there, so that the result lands elsewhere.
  bool decoy_released = false, decoy_kept = false;
  OpId refused;  // an op that fails
  std::int64_t runs = 0;

 private:
  bool ReadsContents(OpId op) const;
  std::uint64_t DigestOf(OpId op, std::span<const double> scalars);

  const TrainingGraph& graph_;
  sim::Workload workload_;
  IdVector<StorageId, std::byte*> at_;
  std::uint64_t random_ = 1;
};

// Memory in which a step runs without a plan: every storage has its own.
class PlainMemory {
 public:
  explicit PlainMemory(const TrainingGraph& graph);
  std::vector<std::byte>& of(StorageId storage) { return storages_[storage]; }
  // The whole step, op by op.
  void Step(FakeRunner& runner, std::span<const double> scalars);

 private:
  const TrainingGraph& graph_;
  IdVector<StorageId, std::vector<std::byte>> storages_;
};

}  // namespace ebbtide::run
