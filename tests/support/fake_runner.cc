// Runs ops as arithmetic on the bytes they read.
#include "tests/support/fake_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace ebbtide::run {
namespace {

std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2);
  a *= 0xff51afd7ed558ccd;
  return a ^ (a >> 32);
}

void Fill(std::byte* at, Bytes bytes, std::uint64_t seed) {
  for (Bytes i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>(Mix(seed, static_cast<std::uint64_t>(i)));
}

// As much as is asked for, each piece on its own.
class Heap final : public OpMemory {
 public:
  void* Allocate(std::size_t bytes) override {
    return pieces_.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
  }
  bool Release(void*) override { return true; }

 private:
  std::vector<std::unique_ptr<std::byte[]>> pieces_;
};

}  // namespace

std::uint64_t NextRandom(std::uint64_t state) { return Mix(state, 3); }

bool FakeRunner::ReadsContents(OpId op) const {
  return !workload_.births[op].empty() || !workload_.changes[op].empty() || graph_.op(op).outputs.empty();
}

std::uint64_t FakeRunner::DigestOf(OpId op, std::span<const double> scalars) {
  std::uint64_t digest = Mix(op.index(), 77);
  for (const StorageId s : workload_.needs[op]) {
    for (Bytes i = 0; i < graph_.storage(s).bytes; ++i) digest = Mix(digest, static_cast<std::uint64_t>(at_[s][i]));
  }
  if (graph_.op(op).phase == Phase::kUpdate) {
    for (const double scalar : scalars) digest = Mix(digest, static_cast<std::uint64_t>(scalar));
  }
  return digest;
}

RunStatus FakeRunner::Run(OpId op, std::span<const double> scalars, OpMemory& memory, std::vector<Made>& made) {
  ++runs;
  made.clear();
  if (op == refused) return tl::unexpected<Failure>(Failure{Failure::Kind::kOther, "refused"});
  if (!ReadsContents(op)) return {};
  const auto allocate = [&](Bytes bytes) {
    return static_cast<std::byte*>(memory.Allocate(static_cast<std::size_t>(bytes)));
  };
  const auto out_of_memory = [] { return tl::unexpected<Failure>(Failure{Failure::Kind::kOutOfMemory, "no memory"}); };
  std::uint64_t digest = DigestOf(op, scalars);
  if (graph_.op(op).random) {
    random_ = NextRandom(random_);
    digest = Mix(digest, random_);
  }
  std::byte* scratch = nullptr;
  if (const Bytes bytes = graph_.op(op).workspace; bytes > 0) {
    if (!(scratch = allocate(bytes))) return out_of_memory();
    Fill(scratch, bytes, 0xdead);
  }
  const auto births = workload_.births[op];
  std::byte* decoy = nullptr;
  if ((decoy_released || decoy_kept) && !births.empty() && graph_.storage(births[0]).bytes > 0) {
    if (!(decoy = allocate(graph_.storage(births[0]).bytes))) return out_of_memory();
    Fill(decoy, graph_.storage(births[0]).bytes, 0xdec0);
    if (decoy_released) memory.Release(decoy);
  }
  for (std::size_t i = 0; i < births.size(); ++i) {
    const Bytes bytes = graph_.storage(births[i]).bytes;
    std::byte* at = nullptr;
    if (bytes > 0 && !(at = allocate(bytes))) return out_of_memory();
    Fill(at, bytes, Mix(digest, i));
    made.push_back({births[i], at, bytes});
  }
  if (scratch) memory.Release(scratch);
  if (decoy_kept && decoy) memory.Release(decoy);
  for (const StorageId s : workload_.changes[op]) Fill(at_[s], graph_.storage(s).bytes, Mix(digest, 1000 + s.index()));
  return {};
}

PlainMemory::PlainMemory(const TrainingGraph& graph) : graph_(graph) {
  for (const StorageId s : Ids<StorageId>(graph.storages.size())) {
    storages_.push_back(std::vector<std::byte>(static_cast<std::size_t>(graph.storage(s).bytes)));
    Fill(storages_.back().data(), graph.storage(s).bytes, 5000 + s.index());
  }
}

void PlainMemory::Step(FakeRunner& runner, std::span<const double> scalars) {
  for (const StorageId s : storages_.ids()) runner.Bind(s, storages_[s].data());
  for (const OpId op : Ids<OpId>(graph_.ops.size())) {
    Heap heap;
    std::vector<Made> made;
    ASSERT_TRUE(runner.Run(op, scalars, heap, made));
    for (const Made& each : made) std::copy_n(each.at, each.bytes, storages_[each.storage].data());
  }
}

}  // namespace ebbtide::run
