// Random numbers of one's own: the ops of each runner draw as if they were alone, whoever else draws from the same
// generator meanwhile. Ops that draw run one at a time, in the whole process, and leave the generator as it was.
#pragma once

#include <vector>

#include "base/id_vector.h"
#include "graph/graph.h"
#include "run/engine/op_runner.h"

namespace ebbtide::run {

// Between them, on one thread, no op of another thread draws. The generator's state is left as it is. May be nested.
void HoldGenerator();
void ReleaseGenerator();

class OwnRandom final : public OpRunner {
 public:
  // Begins with the state that the generator has now. `runner` and `graph` must outlive it.
  OwnRandom(OpRunner& runner, const TrainingGraph& graph);

  RunStatus Run(OpId op, std::span<const double> scalars, OpMemory& memory, std::vector<Made>& made) override;
  void Bind(StorageId storage, std::byte* at) override { runner_.Bind(storage, at); }
  std::size_t RandomBytes() override { return state_.size(); }
  // Between them, on one thread, the generator is this one's, for whatever else draws.
  void Enter();
  void Leave();
  void SaveRandom(std::byte* to) override;
  void LoadRandom(const std::byte* from) override;

 private:
  OpRunner& runner_;
  IdVector<OpId, bool> draws_;
  std::vector<std::byte> state_, others_;
};

}  // namespace ebbtide::run
