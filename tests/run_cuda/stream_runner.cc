// Launches ops as host functions of a stream, with the memory they were given when they were called.
#include "tests/run_cuda/stream_runner.h"

namespace ebbtide::run {
namespace {

class Given final : public OpMemory {
 public:
  explicit Given(const std::vector<std::byte*>& pieces) : pieces_(pieces) {}
  void* Allocate(std::size_t) override { return next_ < pieces_.size() ? pieces_[next_++] : nullptr; }
  bool Release(void*) override { return true; }

 private:
  const std::vector<std::byte*>& pieces_;
  std::size_t next_ = 0;
};

}  // namespace

StreamRunner::StreamRunner(const TrainingGraph& graph, CUstream stream)
    : graph_(graph), stream_(stream), runner_(graph), at_(graph.storages.size()) {
  workload_ = sim::MakeWorkload(graph_, std::vector<Nanos>(graph.ops.size()), {.alignment = 1});
}

RunStatus StreamRunner::Run(OpId op, std::span<const double> scalars, OpMemory& memory, std::vector<Made>& made) {
  made.clear();
  const auto births = workload_.births[op];
  if (births.empty() && workload_.changes[op].empty() && !graph_.op(op).outputs.empty()) return {};
  Call* const call = &calls_.emplace_back(Call{this, op, {scalars.begin(), scalars.end()}, {}, {}, random_});
  const auto allocate = [&](Bytes bytes) {
    void* const at = memory.Allocate(static_cast<std::size_t>(bytes));
    call->memory.push_back(ContentOf(at, bytes));
    return static_cast<std::byte*>(at);
  };
  const auto out_of_memory = [] { return tl::unexpected<Failure>(Failure{Failure::Kind::kOutOfMemory, "no memory"}); };
  std::byte* workspace = nullptr;
  if (graph_.op(op).workspace > 0 && !(workspace = allocate(graph_.op(op).workspace))) return out_of_memory();
  for (const StorageId s : births) {
    const Bytes bytes = graph_.storage(s).bytes;
    std::byte* at = nullptr;
    if (bytes > 0 && !(at = allocate(bytes))) return out_of_memory();
    made.push_back({s, at, bytes});
  }
  if (workspace) memory.Release(workspace);
  for (const StorageId s : workload_.needs[op])
    call->places.emplace_back(s, ContentOf(at_[s], graph_.storage(s).bytes));
  if (graph_.op(op).random) random_ = NextRandom(random_);
  if (cuLaunchHostFunc(stream_, &Execute, call) != CUDA_SUCCESS)
    return tl::unexpected<Failure>(Failure{Failure::Kind::kOther, "cuLaunchHostFunc"});
  return {};
}

void StreamRunner::Execute(void* data) {
  const Call* const call = static_cast<const Call*>(data);
  FakeRunner& runner = call->runner->runner_;
  for (const auto& [storage, at] : call->places) runner.Bind(storage, at);
  runner.LoadRandom(reinterpret_cast<const std::byte*>(&call->random));
  Given memory(call->memory);
  std::vector<Made> made;
  std::ignore = runner.Run(call->op, call->scalars, memory, made);
}

}  // namespace ebbtide::run
