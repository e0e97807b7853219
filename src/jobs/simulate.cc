// Checks a plan and replays it.
#include "jobs/simulate.h"

#include "base/file.h"
#include "graph/reorder.h"
#include "jobs/step.h"
#include "jobs/stop.h"
#include "sim/simulate.h"

namespace ebbtide::jobs {
namespace {

constexpr Bytes kLargestPlan = 2 * kGiB;
constexpr const char* kDefaultGpu = "a100-40gb";

Result<plan::Plan> LoadPlan(const SimulateRequest& request) {
  if (request.in_hand) return *request.in_hand;
  if (request.plan_file.empty()) return Fail("expected --plan FILE");
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(request.plan_file, kLargestPlan));
  return plan::ParsePlan(text, request.plan_file);
}

Status CheckFor(const SimulateRequest& request, const plan::Plan& plan, const TrainingGraph& graph) {
  const Status valid = plan::CheckPlan(plan, graph);
  if (valid) return {};
  const std::string place = request.plan_file.empty() ? "the plan" : request.plan_file;
  return FailAs(ErrorKind::kPlan, "{}: {}", place, valid.error().message);
}

}  // namespace

Result<SimulateResult> Simulate(const SimulateRequest& request, const JobContext& context) {
  StopSignal stop(context);
  EBB_ASSIGN_OR_RETURN(plan::Plan plan, LoadPlan(request));
  EBB_ASSIGN_OR_RETURN(auto graph, LoadModel(request.model, context));
  DeviceProfile gpu;
  if (request.gpu) {
    gpu = *request.gpu;
  } else {
    EBB_ASSIGN_OR_RETURN(gpu, FindProfile(plan.gpu.empty() ? kDefaultGpu : plan.gpu));
  }
  EBB_RETURN_IF_ERROR(CheckFor(request, plan, *graph));
  EBB_RETURN_IF_ERROR(stop.Check());
  const Step plain = MakeStep(graph, gpu, plan.alignment);
  if (!plan.order.empty()) graph = std::make_shared<const TrainingGraph>(Reordered(*graph, plan.order));
  if (request.bandwidth > 0) plan.link = LinkOf(gpu, request.bandwidth);
  // Sizes are rounded as they were for the plan.
  const Step step = MakeStep(std::move(graph), gpu, plan.alignment);
  SimulateResult out;
  out.plan_file = request.plan_file;
  PlanResult& replayed = out.replayed;
  replayed.model = request.model.model;
  replayed.policy = plan.policy;
  replayed.gpu = gpu.name;
  replayed.budget = plan.budget;
  replayed.graph = step.graph;
  replayed.workload = step.workload;
  replayed.plain_time = sim::PlainTime(*plain.workload);
  replayed.plain_peak = sim::PlainPeak(*plain.workload);
  replayed.planned.outcome = sim::Simulate(*step.workload, plan.schedule, plan.link, {.keep_timeline = true});
  replayed.summary = plan::Summarize(*step.workload, plan.schedule, replayed.planned.outcome);
  plan.time = replayed.planned.outcome.time;
  plan.peak = sim::Height(*step.workload, plan.schedule);
  replayed.planned.plan = std::move(plan);
  EBB_RETURN_IF_ERROR(stop.Check());
  return out;
}

}  // namespace ebbtide::jobs
