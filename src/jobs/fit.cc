// The largest batch on each GPU, without and with a plan.
#include "jobs/fit.h"

#include <algorithm>

#include "base/parallel.h"
#include "device/link.h"
#include "device/op_time.h"
#include "estimate/safety.h"
#include "jobs/largest_batch.h"

namespace ebbtide::jobs {
namespace {

constexpr double kMostSlowdown = 1e6;

// A request with its words understood.
struct Search {
  AnyBatchModel model;
  estimate::Options options;             // all but the GPU
  const plan::Policy* policy = nullptr;  // null: no plans are asked for
  double slowdown = 2;
  std::vector<TrainingGraph> asked;  // the step at the batch that was asked for, of every rank that differs
};

Status ParsePlans(const FitRequest& request, Search& search) {
  if (!request.with_plan) {
    if (request.slowdown) return Fail("--slowdown: of no use without --with-plan");
    if (request.policy) return Fail("--policy: of no use without --with-plan");
    return {};
  }
  search.slowdown = request.slowdown.value_or(2);
  if (!(search.slowdown >= 1 && search.slowdown <= kMostSlowdown)) {
    return Fail("--slowdown: expected a number from 1 to {}, found {}", kMostSlowdown, search.slowdown);
  }
  EBB_ASSIGN_OR_RETURN(search.policy, plan::FindPolicy(request.policy.value_or("home")));
  return {};
}

// Smallest memory first.
Result<std::vector<DeviceProfile>> ProfilesOf(const FitRequest& request) {
  std::vector<DeviceProfile> profiles = request.profiles;
  for (const std::string& name : request.gpus) {
    EBB_ASSIGN_OR_RETURN(DeviceProfile profile, FindProfile(name));
    profiles.push_back(std::move(profile));
  }
  if (profiles.empty()) profiles = BuiltInProfiles();
  std::stable_sort(profiles.begin(), profiles.end(), [](const auto& a, const auto& b) { return a.memory < b.memory; });
  return profiles;
}

plan::StepAt StepsOf(const AnyBatchModel& model, const DeviceProfile& gpu, const JobContext& context) {
  return [&](std::int64_t batch) -> Result<std::unique_ptr<plan::BatchStep>> {
    EBB_RETURN_IF_ERROR(context.CheckStop());
    auto step = std::make_unique<plan::BatchStep>();
    EBB_ASSIGN_OR_RETURN(step->graph, model.At(batch));
    EBB_RETURN_IF_ERROR(context.CheckStop());
    step->workload =
        sim::MakeWorkload(step->graph, OpTimes(step->graph, gpu), {.alignment = AlignmentOf(step->graph.framework)});
    return step;
  };
}

// One GPU of several, and how to tell of the search on it.
struct Part {
  const DeviceProfile& gpu;
  std::size_t number = 0, of = 1;
  int threads = 1;

  void Tell(double share, std::string note, const JobContext& context) const {
    context.Tell({.phase = of == 1 ? gpu.name : fmt::format("{} GPUs", of),
                  .share = share,
                  .note = std::move(note),
                  .part = number,
                  .parts = of});
  }
};

std::string RangeText(const Part& part, std::int64_t tried, std::int64_t fits, std::int64_t fails) {
  const std::string range = fails > 0 ? fmt::format("{} to {}", fits, fails - 1) : fmt::format("{} or more", fits);
  return fmt::format("{}: planned batch {}, the largest is {}", part.gpu.name, tried, range);
}

Result<FitWithPlan> FitWithPlanOn(const Search& asked, const Part& part, const JobContext& context) {
  const plan::StepAt steps = StepsOf(asked.model, part.gpu, context);
  plan::BatchOptions search;
  search.policy = asked.policy;
  search.slowdown = asked.slowdown;
  search.link = LinkOf(part.gpu);
  search.limits.budget = part.gpu.memory - part.gpu.context;
  search.search.seed = context.seed;
  search.search.threads = part.threads;
  search.search.stop = context.stop;
  search.progress = [&](std::int64_t tried, std::int64_t fits, std::int64_t fails) {
    part.Tell(0.5, RangeText(part, tried, fits, fails), context);
  };
  EBB_ASSIGN_OR_RETURN(const plan::LargestBatch found, plan::FindLargestBatch(steps, search));
  plan::BatchOptions keeping = search;
  EBB_ASSIGN_OR_RETURN(keeping.policy, plan::FindPolicy("none"));
  keeping.progress = nullptr;
  EBB_ASSIGN_OR_RETURN(const plan::LargestBatch kept, plan::FindLargestBatch(steps, keeping));
  EBB_RETURN_IF_ERROR(context.CheckStop());
  FitWithPlan out{.budget = search.limits.budget,
                  .max_batch = found.batch,
                  .max_batch_kept = kept.batch,
                  .kept_time = kept.plan ? kept.plan->time : 0,
                  .obstacle = found.obstacle,
                  .none_from = found.none_from};
  if (found.plan) {
    out.time = found.plan->time;
    out.plain_time = found.plan->plain_time;
    out.peak = found.plan->peak;
  }
  return out;
}

Result<FitOnGpu> FitOn(const Search& search, const Part& part, const JobContext& context) {
  estimate::Options options = search.options;
  options.gpu = part.gpu;
  FitOnGpu fit{.gpu = part.gpu.name, .memory = part.gpu.memory, .with_plan = {}};
  fit.fits_batch = fit.is_batch_safe = !search.asked.empty();
  for (const TrainingGraph& graph : search.asked) {
    const estimate::Estimate asked = estimate::EstimateTraining(graph, options);
    fit.fits_batch = fit.fits_batch && asked.fits;
    fit.is_batch_safe = fit.is_batch_safe && asked.fits && estimate::SafeTotal(asked, graph).bytes <= part.gpu.memory;
  }
  EBB_ASSIGN_OR_RETURN(const LargestBatches largest, FindLargestBatches(search.model, options, context));
  fit.max_batch = largest.fits;
  fit.max_batch_safe = largest.safe;
  if (search.policy != nullptr) {
    EBB_ASSIGN_OR_RETURN(fit.with_plan, FitWithPlanOn(search, part, context));
  }
  part.Tell(1, {}, context);
  return fit;
}

}  // namespace

double FitWithPlan::slowdown() const {
  return plain_time > 0 ? static_cast<double>(time) / static_cast<double>(plain_time) : 1;
}

const char* FitWithPlan::limited_by() const {
  switch (obstacle) {
    case plan::Obstacle::kFloor:
    case plan::Obstacle::kMemory: return "memory";
    case plan::Obstacle::kLeastTime:
    case plan::Obstacle::kTime: return "time";
    case plan::Obstacle::kNone: break;
  }
  return nullptr;
}

const FitOnGpu* FitResult::smallest() const {
  if (!batch) return nullptr;
  const auto found = std::find_if(gpus.begin(), gpus.end(), [](const FitOnGpu& gpu) { return gpu.fits_batch; });
  return found == gpus.end() ? nullptr : &*found;
}

const FitOnGpu* FitResult::smallest_safe() const {
  if (!batch) return nullptr;
  const auto found = std::find_if(gpus.begin(), gpus.end(), [](const FitOnGpu& gpu) { return gpu.is_batch_safe; });
  return found == gpus.end() ? nullptr : &*found;
}

bool FitResult::found() const {
  if (batch) return smallest() != nullptr;
  return std::any_of(gpus.begin(), gpus.end(), [](const FitOnGpu& gpu) {
    return gpu.max_batch > 0 || (gpu.with_plan && gpu.with_plan->max_batch > 0);
  });
}

Result<FitResult> Fit(const FitRequest& request, const JobContext& context) {
  EBB_ASSIGN_OR_RETURN(const Training training, ParseTraining(request.training, request.model));
  EBB_ASSIGN_OR_RETURN(const std::vector<DeviceProfile> gpus, ProfilesOf(request));
  Search search{.model = {}, .options = training.options, .asked = {}};
  EBB_RETURN_IF_ERROR(ParsePlans(request, search));
  ModelRequest model = request.model;
  model.options.framework = training.framework;
  EBB_ASSIGN_OR_RETURN(search.model, AnyBatchModel::Open(model, context));
  FitResult out{.model = model.model,
                .batch = {},
                .terms = {},
                .safe_probability = estimate::SafetyRule().probability,
                .gpus = {}};
  if (search.policy != nullptr && search.model.stages() > 1) {
    return Fail("--with-plan: of no use with --pp, whose stages need plans of their own; expected `ebbtide plan`");
  }
  if (search.policy != nullptr) {
    out.terms = FitTerms{
        .policy = std::string(search.policy->name), .slowdown = search.slowdown, .passes = search.model.passes()};
  }
  if (model.Gave("--batch-size")) {
    out.batch = model.options.batch_size;
    for (std::int64_t stage = 0; stage < search.model.stages(); ++stage) {
      EBB_ASSIGN_OR_RETURN(TrainingGraph graph, search.model.At(*out.batch, stage));
      search.asked.push_back(std::move(graph));
    }
  }
  // GPUs are independent of each other, so the result does not depend on the number of threads. Several are searched at
  // a time; a single one's searches are on several threads.
  std::vector<Result<FitOnGpu>> fits(gpus.size());
  ForEachIndex(gpus.size(), context.threads, [&](std::size_t i) {
    const Part part{.gpu = gpus[i], .number = i, .of = gpus.size(), .threads = gpus.size() > 1 ? 1 : context.threads};
    fits[i] = FitOn(search, part, context);
  });
  for (Result<FitOnGpu>& fit : fits) {
    if (!fit) return tl::unexpected<Error>(fit.error());
    out.gpus.push_back(*std::move(fit));
  }
  return out;
}

}  // namespace ebbtide::jobs
