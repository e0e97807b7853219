// Swaps the process's random state for the runner's own around each op that draws.
#include "run/engine/own_random.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <new>

namespace ebbtide::run {
namespace {

std::recursive_mutex generator;  // the process has one

// In a child by fork, the thread that held it may not be there.
const int at_fork = pthread_atfork(nullptr, nullptr, [] { new (&generator) std::recursive_mutex; });

}  // namespace

void HoldGenerator() { generator.lock(); }

void ReleaseGenerator() { generator.unlock(); }

OwnRandom::OwnRandom(OpRunner& runner, const TrainingGraph& graph) : runner_(runner) {
  for (const Op& op : graph.ops) draws_.push_back(op.random);
  const std::lock_guard lock(generator);
  state_.resize(runner_.RandomBytes());
  others_.resize(state_.size());
  runner_.SaveRandom(state_.data());
}

RunStatus OwnRandom::Run(OpId op, std::span<const double> scalars, OpMemory& memory, std::vector<Made>& made) {
  if (!draws_[op]) return runner_.Run(op, scalars, memory, made);
  Enter();
  const RunStatus outcome = runner_.Run(op, scalars, memory, made);
  Leave();
  return outcome;
}

void OwnRandom::Enter() {
  generator.lock();
  runner_.SaveRandom(others_.data());
  runner_.LoadRandom(state_.data());
}

void OwnRandom::Leave() {
  runner_.SaveRandom(state_.data());
  runner_.LoadRandom(others_.data());
  generator.unlock();
}

void OwnRandom::SaveRandom(std::byte* to) { std::ranges::copy(state_, to); }

void OwnRandom::LoadRandom(const std::byte* from) { std::copy_n(from, state_.size(), state_.data()); }

}  // namespace ebbtide::run
