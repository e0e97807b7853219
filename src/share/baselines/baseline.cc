// The list of other ways, and what several of them need.
#include "share/baselines/baseline.h"

#include <algorithm>
#include <numeric>

namespace ebbtide::share {

const std::vector<Baseline>& Baselines() {
  static const std::vector<Baseline> kBaselines = {
      {"exclusive", "one after the other, each with the GPU to itself", RunExclusive},
      {"time-slicing", "whole iterations in turn; state goes to the host where it does not fit", RunTimeSlicing},
      {"mps", "a process each, all at once; each has a context and a caching pool of its own", RunMps},
      {"paging", "a process each, all at once; what does not fit is paged over the link, least recently used first",
       RunPaging},
      {"zico", "an iteration begins when the memory curves of all, as predicted, add up to less than the memory",
       RunZico},
      {"wavelet", "two waves: an iteration begins at the memory peak of the one before", RunWavelet},
      {"salus", "lanes of state and one iteration's peak; one iteration at a time in each", RunSalus}};
  return kBaselines;
}

const Baseline* FindBaseline(std::string_view name) {
  for (const Baseline& baseline : Baselines()) {
    if (baseline.name == name) return &baseline;
  }
  return nullptr;
}

BaselineInput MakeBaselineInput(const std::vector<std::shared_ptr<const Training>>& trainings,
                                const MixOptions& options) {
  BaselineInput out{.jobs = {}, .options = options};
  for (const auto& training : trainings) {
    out.jobs.push_back(MakeJob(training, nullptr, options.capacity, options.cut, options.link));
  }
  return out;
}

Bytes CapacityBesideContexts(const BaselineInput& input) {
  const DeviceProfile& gpu = input.options.gpu;
  return input.options.capacity - static_cast<Bytes>(input.jobs.size() - 1) * gpu.context;
}

Bytes StateOf(const BaselineInput& input) {
  return std::accumulate(input.jobs.begin(), input.jobs.end(), Bytes{0},
                         [](Bytes sum, const Job& job) { return sum + job.placement.state; });
}

std::vector<GroupBytes> LiveBytesOf(const Job& job) {
  std::vector<GroupBytes> out;
  for (const NodeGroup& group : job.cut.groups) {
    GroupBytes bytes{.after = job.placement.crossing[StepId(group.end.index() - 1)]};
    for (const StepId step : Ids(group.begin, group.end)) {
      bytes.peak = std::max(bytes.peak, job.placement.live[step]);
    }
    out.push_back(bytes);
  }
  return out;
}

}  // namespace ebbtide::share
