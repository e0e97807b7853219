// Random planning tasks and preferences, and addresses for the schedules made of them.
#include "tests/support/random_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "graph/collective.h"
#include "plan/place.h"

namespace ebbtide::plan {

std::unique_ptr<Task> RandomTask(std::uint64_t seed, bool exchanges) {
  std::mt19937_64 random(seed ^ 0x5bd1e995);
  const auto uniform = [&](double from, double to) { return std::uniform_real_distribution<double>(from, to)(random); };
  RandomStepOptions options;
  options.layers = static_cast<int>(uniform(1, 14));
  auto task = std::make_unique<Task>();
  task->graph = RandomStep(seed, options);
  const double share = exchanges ? uniform(0.05, 0.5) : 0;
  if (exchanges) {
    for (Op& op : task->graph.ops) {
      if (uniform(0, 1) < share) SetStream(op, Stream::kReduce);
    }
  }
  std::vector<Nanos> times;
  for (const Op& op : task->graph.ops) times.push_back(op.time);
  const Bytes alignment = uniform(0, 1) < 0.5 ? 1 : 8;
  task->workload =
      sim::MakeWorkload(task->graph, times, {.alignment = alignment, .exchanges_use_host_link = seed % 3 == 0});
  Link link;
  link.to_device = std::pow(10.0, uniform(7.5, 10));
  link.to_host = uniform(0, 1) < 0.5 ? link.to_device : std::pow(10.0, uniform(7.5, 10));
  link.latency = uniform(0, 1) < 0.5 ? 0 : static_cast<Nanos>(uniform(1, 30));
  Limits limits;
  const double way = uniform(0, 1);
  limits.may_swap = way < 0.8;
  limits.may_recompute = way > 0.2;
  limits.may_move_state = uniform(0, 1) < 0.3;
  if (uniform(0, 1) < 0.3) limits.host = static_cast<Bytes>(uniform(0, 300));
  const Bytes floor = Floor(MakeProblem(task->workload, link, limits));
  const Bytes most = sim::PlainPeak(task->workload);
  const double tight = uniform(0, 1);
  limits.budget = floor + static_cast<Bytes>(tight * tight * 1.1 * static_cast<double>(most - floor));
  task->problem = MakeProblem(task->workload, link, limits);
  return task;
}

Preferences RandomPreferences(const sim::Workload& workload, std::mt19937_64& random) {
  Preferences out = Neutral(workload);
  std::normal_distribution<float> normal(0, 3);
  const int favourite = std::uniform_int_distribution<int>(0, 3)(random);
  for (const StorageId s : workload.storage_ids()) {
    const int choice = favourite < 3 ? favourite : std::uniform_int_distribution<int>(0, 2)(random);
    out.choice[s] = static_cast<Choice>(choice);
    out.weight[s] = normal(random);
  }
  out.distance_power = std::uniform_real_distribution<double>(0, 3)(random);
  out.staleness_power = std::uniform_real_distribution<double>(0, 2)(random);
  out.batch = std::uniform_real_distribution<double>(0, 8)(random);
  return out;
}

Bytes GiveAddresses(const sim::Workload& workload, sim::Schedule& schedule) {
  return Place(workload, schedule, /*height_limit=*/kTooLarge);
}

int Cases(int quick) {
  const char* soak = std::getenv("EBBTIDE_SOAK");
  return soak ? std::max(quick, std::atoi(soak)) : quick;
}

void Tell(int count, std::string_view what) {
  if (!std::getenv("EBBTIDE_SOAK")) return;
  fmt::print("{:10} {}\n", count, what);
  std::fflush(stdout);
}

}  // namespace ebbtide::plan
