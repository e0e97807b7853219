// Other ways to train several models on one GPU, in the one simulator: one file each, with its rule.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "share/scheduler/arrange.h"

namespace ebbtide::share {

struct BaselineInput {
  std::vector<Job> jobs;  // without plans
  MixOptions options;
};
// `trainings` as ArrangeMix takes them.
BaselineInput MakeBaselineInput(const std::vector<std::shared_ptr<const Training>>& trainings,
                                const MixOptions& options);

struct BaselineResult {
  std::string name;
  bool fits = false;
  std::string note;  // why it does not fit, or what it had to do
  Bytes memory = 0;  // of the device, that it needs to run without moving anything
  Together together;
};

struct Baseline {
  std::string_view name;
  std::string_view rule;  // one line
  BaselineResult (*run)(const BaselineInput& input);
};
// In the order in which they are shown.
const std::vector<Baseline>& Baselines();
const Baseline* FindBaseline(std::string_view name);

// ---- One file each
BaselineResult RunExclusive(const BaselineInput& input);
BaselineResult RunTimeSlicing(const BaselineInput& input);
BaselineResult RunMps(const BaselineInput& input);
BaselineResult RunPaging(const BaselineInput& input);
BaselineResult RunZico(const BaselineInput& input);
BaselineResult RunWavelet(const BaselineInput& input);
BaselineResult RunSalus(const BaselineInput& input);

// ---- For several of them
// What remains of the GPU beside the contexts of so many processes.
Bytes CapacityBesideContexts(const BaselineInput& input);
Bytes StateOf(const BaselineInput& input);
// Live bytes of each group of a job: the most while it runs, and those after it.
struct GroupBytes {
  Bytes peak = 0, after = 0;
};
std::vector<GroupBytes> LiveBytesOf(const Job& job);
// Everyone may run at any time.
class OpenScheduler : public GroupScheduler {
 public:
  std::optional<Nanos> TryStart(std::size_t, int, double) override { return Nanos{0}; }
  void Finished(std::size_t, int, double) override {}
};

}  // namespace ebbtide::share
