// ebbtide.native: the functions of src/jobs, one for each verb that computes. Names and meanings are the command
// line's.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "job_call.h"
#include "jobs/advise.h"
#include "jobs/cluster.h"
#include "jobs/estimate.h"
#include "jobs/explain.h"
#include "jobs/fit.h"
#include "jobs/inspect.h"
#include "jobs/pack.h"
#include "jobs/plan.h"
#include "jobs/replay.h"
#include "jobs/scratch.h"
#include "jobs/share.h"
#include "jobs/simulate.h"
#include "module.h"
#include "requests.h"
#include "results.h"

namespace ebbtide::core {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// The version of the torch that this process has imported; empty: none.
std::string ImportedTorch() {
  const nb::object torch = nb::module_::import_("sys").attr("modules").attr("get")("torch");
  const nb::object version = nb::getattr(torch, "__version__", nb::none());
  return version.is_none() ? "" : nb::cast<std::string>(nb::str(version));
}

jobs::TrainingRequest TrainingOf(const std::optional<std::string>& framework,
                                 const std::optional<std::string>& zero_grad, std::optional<std::int64_t> iterations,
                                 const std::optional<std::string>& alloc_conf) {
  jobs::TrainingRequest request;
  request.framework = framework.value_or(request.framework);
  request.torch = ImportedTorch();
  request.zero_grad = zero_grad.value_or(request.zero_grad);
  request.iterations = iterations.value_or(request.iterations);
  request.alloc_conf = alloc_conf.value_or(request.alloc_conf);
  return request;
}

std::optional<DeviceProfile> GivenGpu(const nb::object& gpu) {
  if (gpu.is_none()) return std::nullopt;
  return GpuOf(gpu);
}

jobs::InspectResult Inspect(const nb::object& model, const nb::object& gpu, const nb::dict& options) {
  const jobs::InspectRequest request{.model = ModelOf(model, options), .gpu = GivenGpu(gpu)};
  return RunJob({.progress = nb::none()},
                [&](const jobs::JobContext& context) { return jobs::Inspect(request, context); });
}

jobs::EstimateResult Estimate(const nb::object& model, const nb::object& gpu, const std::vector<Graph>& others,
                              const std::optional<std::string>& framework, const std::optional<std::string>& zero_grad,
                              std::optional<std::int64_t> iterations, const std::optional<std::string>& alloc_conf,
                              const nb::dict& options, const nb::object& progress, int threads) {
  const jobs::EstimateRequest request{.model = ModelOf(model, options, others),
                                      .training = TrainingOf(framework, zero_grad, iterations, alloc_conf),
                                      .profile = GpuOf(gpu)};
  return RunJob({.threads = threads, .progress = progress},
                [&](const jobs::JobContext& context) { return jobs::Estimate(request, context); });
}

jobs::FitResult Fit(const nb::object& model, const std::vector<nb::object>& gpus, const std::vector<Graph>& others,
                    bool with_plan, std::optional<double> slowdown, const std::optional<std::string>& policy,
                    const nb::dict& options, const nb::object& progress, std::uint64_t seed, int threads) {
  jobs::FitRequest request{
      .model = ModelOf(model, options, others), .with_plan = with_plan, .slowdown = slowdown, .policy = policy};
  for (const nb::object& gpu : gpus) request.profiles.push_back(GpuOf(gpu));
  return RunJob({.seed = seed, .threads = threads, .progress = progress},
                [&](const jobs::JobContext& context) { return jobs::Fit(request, context); });
}

jobs::PlanResult MakePlan(const nb::object& model, const nb::object& budget, const nb::object& gpu,
                          const nb::object& link, const std::string& policy, bool swap, bool swap_state, bool recompute,
                          bool reorder, bool compare, bool pareto, bool bound, std::int64_t evaluations,
                          double time_limit, Bytes alignment, const nb::dict& options, const nb::object& progress,
                          std::uint64_t seed, int threads) {
  const jobs::PlanRequest request{.model = ModelOf(model, options),
                                  .gpu = GpuOf(gpu),
                                  .budget = BudgetOf(budget),
                                  .bandwidth = BandwidthOf(link),
                                  .may_swap = swap,
                                  .may_move_state = swap_state,
                                  .may_recompute = recompute,
                                  .may_reorder = reorder,
                                  .alignment = alignment,
                                  .policy = policy,
                                  .compare = compare,
                                  .pareto = pareto,
                                  .bound = bound,
                                  .evaluations = evaluations,
                                  .time_limit = time_limit};
  return RunJob({.seed = seed, .threads = threads, .progress = progress},
                [&](const jobs::JobContext& context) { return jobs::Plan(request, context); });
}

jobs::SimulateResult Simulate(const nb::object& model, const Plan& plan, const nb::object& gpu, const nb::object& link,
                              const nb::dict& options) {
  const jobs::SimulateRequest request{.model = ModelOf(model, options),
                                      .plan_file = "plan",
                                      .in_hand = *plan.value,
                                      .gpu = GivenGpu(gpu),
                                      .bandwidth = BandwidthOf(link)};
  return RunJob({.progress = nb::none()},
                [&](const jobs::JobContext& context) { return jobs::Simulate(request, context); });
}

jobs::ShareResult Share(const std::vector<nb::object>& models, const nb::object& gpu, const nb::object& capacity,
                        const nb::object& link, const std::vector<std::int64_t>& weights,
                        const std::vector<int>& priorities, int groups, bool may_plan, bool max_batch, bool compare,
                        const nb::dict& options, const nb::object& progress, std::uint64_t seed, int threads) {
  jobs::ShareRequest request;
  request.gpu = GpuOf(gpu);
  if (!link.is_none()) request.link = jobs::LinkOf(request.gpu, BandwidthOf(link));
  if (!capacity.is_none()) request.capacity = BytesOf(capacity, "capacity");
  request.groups = groups;
  request.may_plan = may_plan;
  request.max_batch = max_batch;
  request.compare = compare;
  for (const auto& [list, name] : {std::pair(weights.size(), "weights"), std::pair(priorities.size(), "priorities")}) {
    if (list != 0 && list != models.size()) Raise({fmt::format("{}: expected one for each job", name)});
  }
  for (std::size_t i = 0; i < models.size(); ++i) {
    jobs::ShareJobRequest job{.model = ModelOf(models[i], options)};
    if (!weights.empty()) job.weight = weights[i];
    if (!priorities.empty()) job.priority = priorities[i];
    request.jobs.push_back(std::move(job));
  }
  return RunJob({.seed = seed, .threads = threads, .progress = progress},
                [&](const jobs::JobContext& context) { return jobs::Share(request, context); });
}

jobs::ReplayResult Replay(const std::string& trace, const std::string& allocator, const std::string& alloc_conf,
                          const nb::object& gpu, const nb::object& capacity, std::int64_t device, bool keep_going) {
  jobs::ReplayRequest request;
  request.path = trace;
  request.device = device;
  request.allocator = allocator;
  request.options = alloc_conf;
  request.gpu = GivenGpu(gpu);
  if (!capacity.is_none()) request.capacity = BytesOf(capacity, "capacity");
  request.keep_going = keep_going;
  return RunJob({.progress = nb::none()},
                [&](const jobs::JobContext& context) { return jobs::Replay(request, context); });
}

jobs::AdviseResult Advise(const nb::object& model, const std::string& gpu, const nb::dict& options) {
  const jobs::AdviseRequest request{.model = ModelOf(model, options), .gpu = gpu};
  return RunJob({.progress = nb::none()},
                [&](const jobs::JobContext& context) { return jobs::Advise(request, context); });
}

jobs::ExplainResult Explain(const std::string& file, std::int64_t device, std::size_t largest) {
  const jobs::ExplainRequest request{.path = file, .device = device, .largest = largest};
  return RunJob({.progress = nb::none()},
                [&](const jobs::JobContext& context) { return jobs::Explain(request, context); });
}

jobs::ClusterResult Cluster(const std::string& trace, const std::string& nodes,
                            const std::vector<std::string>& policies, const std::string& name,
                            std::optional<double> fill, double memory_error, double time_error,
                            const nb::object& progress, std::uint64_t seed) {
  const jobs::ClusterRequest request{.path = trace,
                                     .trace = name,
                                     .nodes = nodes,
                                     .policies = policies,
                                     .fill = fill,
                                     .memory_error = memory_error,
                                     .time_error = time_error};
  return RunJob({.seed = seed, .progress = progress},
                [&](const jobs::JobContext& context) { return jobs::Cluster(request, context); });
}

jobs::PackResult Pack(const std::string& instance, const nb::object& capacity, Bytes alignment,
                      std::int64_t evaluations, double time_limit, const nb::object& progress, std::uint64_t seed) {
  const jobs::PackRequest request{.path = instance,
                                  .instance = {},
                                  .capacity = capacity.is_none() ? 0 : BytesOf(capacity, "capacity"),
                                  .alignment = alignment,
                                  .evaluations = evaluations,
                                  .time_limit = time_limit};
  return RunJob({.seed = seed, .progress = progress},
                [&](const jobs::JobContext& context) { return jobs::Pack(request, context); });
}

}  // namespace

void AddJobs(nb::module_& module) {
  AddResults(module);
  // A MODEL is a Graph, or what the command line takes; `options` are those of the command line, for what is no Graph.
  // A GPU is a Profile, a name or a path. `progress` is called with (phase, share, note). Ctrl-C stops each of them.
  module.def("inspect", &Inspect, "model"_a, nb::kw_only(), "gpu"_a = nb::none(), "options"_a = nb::dict(),
             "What a step computes, saves and holds.");
  module.def("estimate", &Estimate, "model"_a, nb::kw_only(), "gpu"_a = "a100-40gb", "others"_a = std::vector<Graph>(),
             "framework"_a = nb::none(), "zero_grad"_a = nb::none(), "iterations"_a = nb::none(),
             "alloc_conf"_a = nb::none(), "options"_a = nb::dict(), "progress"_a = nb::none(), "threads"_a = 0,
             "How much memory a training takes. `others`: captures of the same step at other batches, to tell the "
             "largest batch where it does not fit.");
  module.def(
      "without_scratch_rule", [](const Graph& graph) { return jobs::WithoutScratchRule(*graph.value); }, "graph"_a,
      "The numbers of the ops whose scratch memory no rule of an estimate knows.");
  module.def(
      "scratch_by_op",
      [](const Graph& graph, const nb::object& gpu) { return jobs::ScratchByOp(*graph.value, GpuOf(gpu)); }, "graph"_a,
      nb::kw_only(), "gpu"_a = "a100-40gb",
      "The scratch memory that an estimate counts for each op; None: not counted.");
  module.def("fit", &Fit, "model"_a, nb::kw_only(), "gpus"_a = std::vector<nb::object>(),
             "others"_a = std::vector<Graph>(), "with_plan"_a = false, "slowdown"_a = nb::none(),
             "policy"_a = nb::none(), "options"_a = nb::dict(), "progress"_a = nb::none(), "seed"_a = 0,
             "threads"_a = 0, "The largest batch on each GPU.");
  module.def("plan", &MakePlan, "model"_a, nb::kw_only(), "budget"_a = nb::none(), "gpu"_a = "a100-40gb",
             "link"_a = nb::none(), "policy"_a = "home", "swap"_a = true, "swap_state"_a = false, "recompute"_a = true,
             "reorder"_a = false, "compare"_a = false, "pareto"_a = false, "bound"_a = true, "evaluations"_a = 0,
             "time_limit"_a = 0.0, "alignment"_a = 0, "options"_a = nb::dict(), "progress"_a = nb::none(), "seed"_a = 0,
             "threads"_a = 0,
             "Which storages to keep, swap or recompute so that a step fits a budget. That there is no plan is an "
             "answer.");
  module.def("simulate", &Simulate, "model"_a, "plan"_a, nb::kw_only(), "gpu"_a = nb::none(), "link"_a = nb::none(),
             "options"_a = nb::dict(), "Checks a plan op by op, and replays it. PlanError where it is not valid.");
  module.def("share", &Share, "models"_a, nb::kw_only(), "gpu"_a = "a100-40gb", "capacity"_a = nb::none(),
             "link"_a = nb::none(), "weights"_a = std::vector<std::int64_t>(), "priorities"_a = std::vector<int>(),
             "groups"_a = 16, "may_plan"_a = true, "max_batch"_a = false, "compare"_a = false, "options"_a = nb::dict(),
             "progress"_a = nb::none(), "seed"_a = 0, "threads"_a = 0,
             "Whether trainings fit on one GPU together, and how fast they are.");
  module.def("replay", &Replay, "trace"_a, nb::kw_only(), "allocator"_a = "pytorch", "alloc_conf"_a = "",
             "gpu"_a = nb::none(), "capacity"_a = nb::none(), "device"_a = -1, "keep_going"_a = false,
             "An allocation trace through an allocator model.");
  module.def("advise", &Advise, "model"_a, nb::kw_only(), "gpu"_a = "a100-40gb", "options"_a = nb::dict(),
             "Which measures make a training fit a GPU, those that cost least time first.");
  module.def("explain", &Explain, "file"_a, nb::kw_only(), "device"_a = -1, "largest"_a = 10,
             "Why a training ran out of memory, from a snapshot or a log. Nothing in the file is executed.");
  module.def("cluster", &Cluster, "trace"_a, nb::kw_only(), "nodes"_a, "policies"_a = std::vector<std::string>(),
             "name"_a = "", "fill"_a = nb::none(), "memory_error"_a = 0.0, "time_error"_a = 0.0,
             "progress"_a = nb::none(), "seed"_a = 0,
             "A trace of jobs placed on a cluster's GPUs by each policy. `name`: of a file with several traces.");
  module.def("pack", &Pack, "instance"_a, nb::kw_only(), "capacity"_a = nb::none(), "alignment"_a = 1,
             "evaluations"_a = jobs::PackRequest{}.evaluations, "time_limit"_a = 0.0, "progress"_a = nb::none(),
             "seed"_a = 0, "Addresses for items whose sizes and lives are known.");
}

}  // namespace ebbtide::core
