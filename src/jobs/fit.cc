// The largest batch on each GPU, without and with a plan.
#include "jobs/fit.h"

#include <algorithm>
#include <tuple>

#include "base/parallel.h"
#include "device/link.h"
#include "estimate/safety.h"
#include "jobs/largest_batch.h"
#include "jobs/step.h"
#include "parallel/execution_order.h"

namespace ebbtide::jobs {
namespace {

constexpr double kMostSlowdown = 1e6;
constexpr std::int64_t kLargestTimed = 1 << 20;  // batches beyond it are timed as if they were this

// A request with its words understood.
struct Search {
  AnyBatchModel model;
  estimate::Options options;             // all but the GPU
  const plan::Policy* policy = nullptr;  // null: no plans are asked for
  double slowdown = 2;
  std::vector<TrainingGraph> asked;  // the step at the batch that was asked for, of every rank that differs
  parallel::Layout layout;
  std::int64_t batch = 0;  // that was asked for
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
    step->graph = parallel::InExecutionOrder(std::move(step->graph));
    step->workload = TimedWorkload(step->graph, gpu);
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

// An iteration of the batch. Of a pipeline, that of the slowest stage, and the time in which it has nothing to do while
// the first microbatch comes and the last goes: as long as it takes for one microbatch, for each of the other stages.
Result<Nanos> TimeOf(const Search& search, std::int64_t batch, const DeviceProfile& gpu) {
  Nanos longest = 0;
  for (std::int64_t stage = 0; stage < search.model.stages(); ++stage) {
    EBB_ASSIGN_OR_RETURN(TrainingGraph graph, search.model.At(batch, stage));
    longest = std::max(longest, StepTime(std::move(graph), gpu));
  }
  const parallel::Layout& layout = search.layout;
  return longest + longest * (layout.pp - 1) / (layout.passes() * layout.chunks);
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
  const std::int64_t largest_safe = fit.max_batch_safe > 0 ? fit.max_batch_safe : fit.max_batch;
  fit.timed_batch = !search.asked.empty() ? search.batch : std::min(largest_safe, kLargestTimed);
  if (fit.timed_batch > 0) {
    EBB_ASSIGN_OR_RETURN(fit.time, TimeOf(search, fit.timed_batch, part.gpu));
    const parallel::Layout& layout = search.layout;
    const std::int64_t samples =
        fit.timed_batch * search.model.passes() * (layout.gpus / (layout.tp * layout.pp * layout.cp));
    if (fit.time > 0) fit.samples_per_second = static_cast<double>(samples) * 1e9 / static_cast<double>(fit.time);
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

namespace {

// As the layout of the request has it.
Result<FitResult> FitOfLayout(const FitRequest& request, const JobContext& context) {
  EBB_ASSIGN_OR_RETURN(const Training training, ParseTraining(request.training, request.model));
  EBB_ASSIGN_OR_RETURN(const std::vector<DeviceProfile> gpus, ProfilesOf(request));
  Search search{.model = {}, .options = training.options, .asked = {}, .layout = request.model.layout};
  EBB_RETURN_IF_ERROR(ParsePlans(request, search));
  ModelRequest model = request.model;
  model.options.framework = training.framework;
  EBB_ASSIGN_OR_RETURN(search.model, AnyBatchModel::Open(model, context));
  FitResult out{.model = model.model,
                .meta = {},
                .batch = {},
                .terms = {},
                .safe_probability = estimate::SafetyRule().probability,
                .gpus = {},
                .layouts = {}};
  if (search.policy != nullptr && search.model.stages() > 1) {
    return Fail("--with-plan: of no use with --pp, whose stages need plans of their own; expected `ebbtide plan`");
  }
  if (search.policy != nullptr) {
    out.terms = FitTerms{
        .policy = std::string(search.policy->name), .slowdown = search.slowdown, .passes = search.model.passes()};
  }
  if (model.Gave("--batch-size")) {
    out.batch = model.options.batch_size;
    search.batch = *out.batch;
    for (std::int64_t stage = 0; stage < search.model.stages(); ++stage) {
      EBB_ASSIGN_OR_RETURN(TrainingGraph graph, search.model.At(*out.batch, stage));
      search.asked.push_back(std::move(graph));
    }
  }
  if (const auto step = search.model.At(1)) out.meta = step->meta;
  out.meta.erase("batch_size");
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

// What fits goes first, then what trains most samples in a second.
bool IsBetter(const FitOnGpu& a, const FitOnGpu& b, bool asked) {
  const auto rank = [&](const FitOnGpu& fit) {
    const bool is_safe = asked ? fit.is_batch_safe : fit.max_batch_safe > 0;
    const bool fits = asked ? fit.fits_batch : fit.max_batch > 0;
    return std::tuple(is_safe, fits, fit.samples_per_second);
  };
  return rank(a) > rank(b);
}

Result<FitResult> FitOfEachLayout(const FitRequest& request, const JobContext& context) {
  EBB_ASSIGN_OR_RETURN(const std::vector<DeviceProfile> gpus, ProfilesOf(request));
  const std::int64_t machine = std::ranges::max_element(gpus, {}, &DeviceProfile::machine_gpus)->machine_gpus;
  std::optional<FitResult> out;
  std::vector<FitLayout> layouts;
  std::optional<Error> refused;
  for (const parallel::Layout& layout : parallel::UsualLayouts(request.model.layout.gpus, machine)) {
    FitRequest of_layout = request;
    of_layout.model.layout.data = layout.data;
    of_layout.model.layout.tp = layout.tp;
    of_layout.model.layout.pp = layout.pp;
    FitLayout row{.flags = parallel::FlagsOf(layout), .refused = {}, .gpus = {}};
    auto fit = FitOfLayout(of_layout, context);
    EBB_RETURN_IF_ERROR(context.CheckStop());
    if (fit) {
      row.gpus = fit->gpus;
      if (!out) {
        out = *std::move(fit);
      } else {
        for (std::size_t i = 0; i < row.gpus.size(); ++i) {
          if (IsBetter(row.gpus[i], out->gpus[i], out->batch.has_value())) out->gpus[i] = row.gpus[i];
        }
      }
    } else {
      row.refused = fit.error().message;
      if (!refused) refused = fit.error();
    }
    layouts.push_back(std::move(row));
  }
  if (!out) return tl::unexpected<Error>(*refused);
  out->layouts = std::move(layouts);
  return *std::move(out);
}

}  // namespace

Result<FitResult> Fit(const FitRequest& request, const JobContext& context) {
  const bool is_open = !request.model.layout.IsPlain() && !parallel::HasAxes(request.model.layout);
  return is_open ? FitOfEachLayout(request, context) : FitOfLayout(request, context);
}

}  // namespace ebbtide::jobs
