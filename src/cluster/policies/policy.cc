// The table of policies, and what several of them count by.
#include "cluster/policies/policy.h"

namespace ebbtide::cluster {

const std::vector<PolicyRow>& Policies() {
  static const std::vector<PolicyRow> rows = {
      {"exclusive", "every job has its GPUs to itself", MakeExclusive},
      {"mps", "by declared memory, which is also the limit; where none is declared, half of the GPU", MakeMps},
      {"carma", "what it takes and 2 GiB are free and the GPU is less than 80 % busy; most free memory first",
       MakeCarma},
      {"best-fit", "the GPU with the least left that is enough, by share or predicted memory", MakeBestFit},
      {"fgd", "fragmentation gradient descent, by share or predicted memory", MakeFgd},
      {"ebbtide", "predicted memory with its margin; where the GPU gets most done beside what it runs", MakeEbbtide}};
  return rows;
}

const PolicyRow* FindPolicy(std::string_view name) {
  for (const PolicyRow& row : Policies()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::int64_t MilliOf(const State& state, const Gpu& gpu, std::size_t kind) {
  const Kind& of = state.kind(kind);
  if (of.by_share()) return of.gpu_milli;
  const Bytes memory = state.memory(gpu);
  if (state.on(kind, gpu).estimate > memory) return kWholeGpu + 1;
  const double share =
      static_cast<double>(state.on(kind, gpu).reserve) / static_cast<double>(std::max<Bytes>(memory, 1));
  return std::min(kWholeGpu, static_cast<std::int64_t>(share * kWholeGpu) + 1);
}

}  // namespace ebbtide::cluster
