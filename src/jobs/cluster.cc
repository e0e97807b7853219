// Makes kinds of jobs of the rows of a trace, by estimates and modelled times, and has every policy place them.
#include "jobs/cluster.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include "base/nearest.h"
#include "device/profile.h"
#include "estimate/safety.h"
#include "jobs/model.h"
#include "jobs/training.h"
#include "share/scheduler/job.h"

namespace ebbtide::jobs {
namespace {

constexpr double kMostFill = 100;
constexpr std::size_t kMostDrawn = 10'000'000;

// A training on one GPU.
struct Estimated {
  Bytes total = 0, safe = 0;
  double alone = 0;    // seconds of an iteration
  double kernels = 0;  // of them, with a kernel on the GPU
  double share = 1;    // of the GPU that they keep busy
};

using ModelKey = std::tuple<std::string, std::int64_t, std::string, std::int64_t, std::int64_t, std::int64_t>;
ModelKey KeyOf(const cluster::TraceJob& job) {
  return {job.model, job.batch, job.optimizer, job.image_size, job.seq_len, job.classes};
}

ModelRequest ModelOf(const cluster::TraceJob& job) {
  ModelRequest request;
  request.model = job.model;
  request.options.device = model::Device::kCuda;
  request.options.batch_size = job.batch;
  request.given.insert("--batch-size");
  const auto choose = [&](std::int64_t value, std::optional<std::int64_t>& option, const char* flag) {
    if (value == 0) return;
    option = value;
    request.given.insert(flag);
  };
  choose(job.image_size, request.options.image_size, "--image-size");
  choose(job.seq_len, request.options.seq_len, "--seq-len");
  choose(job.classes, request.options.classes, "--classes");
  if (!job.optimizer.empty()) {
    request.options.optimizer = job.optimizer;
    request.given.insert("--optimizer");
  }
  return request;
}

Result<std::vector<Estimated>> EstimateOn(const cluster::TraceJob& job, const std::vector<DeviceProfile>& gpus,
                                          const JobContext& context) {
  const ModelRequest request = ModelOf(job);
  EBB_ASSIGN_OR_RETURN(Training training, ParseTraining({}, request));
  EBB_ASSIGN_OR_RETURN(const std::shared_ptr<const TrainingGraph> graph, LoadModel(request, context));
  std::vector<Estimated> out;
  for (const DeviceProfile& gpu : gpus) {
    training.options.gpu = gpu;
    const estimate::Estimate estimate = estimate::EstimateTraining(*graph, training.options);
    Estimated on{.total = estimate.total(), .safe = estimate::SafeTotal(estimate, *graph).bytes};
    share::TrainingOptions options{.model = job.model, .batch = job.batch};
    const auto step = share::MakeTraining(std::move(options), *graph, gpu);
    double busy = 0;
    for (const OpId op : step->workload.op_ids()) {
      const auto time = static_cast<double>(step->workload.time[op]) / 1e9;
      const auto launch = static_cast<double>(step->launch[op]) / 1e9;
      on.alone += time;
      on.kernels += time - launch;
      busy += (time - launch) * step->share[op];
    }
    on.share = on.kernels > 0 ? busy / on.kernels : 1;
    out.push_back(on);
  }
  return out;
}

// Seconds alone, on the first type of GPU.
Result<double> SecondsOf(const cluster::TraceJob& job, const std::vector<Estimated>& on, const std::string& path) {
  if (job.seconds) return *job.seconds;
  if (job.iterations && !on.empty()) return *job.iterations * on.front().alone;
  return Fail("{}, line {}: expected seconds, or a model and its work", path, job.line);
}

// Of the job's time alone, the part in which a kernel of it runs: by the seconds that were measured, if there are any.
double KernelsOf(const cluster::TraceJob& job, const Estimated& on) {
  const double modelled = on.alone > 0 ? on.kernels / on.alone : 1;
  if (!job.seconds || !job.iterations || *job.seconds <= 0) return modelled;
  return std::min(1.0, *job.iterations * on.kernels / *job.seconds);
}

class Kinds {
 public:
  Kinds(const ClusterRequest& request, const std::vector<DeviceProfile>& gpus, const JobContext& context)
      : request_(request), gpus_(gpus), context_(context), sizes_(context.seed), times_(context.seed + 1) {}

  Result<cluster::Workload> Of(const cluster::Trace& trace) {
    cluster::Workload out;
    for (const cluster::TraceJob& row : trace.jobs) {
      EBB_RETURN_IF_ERROR(context_.CheckStop());
      cluster::Job job{.name = row.name, .arrival = row.arrival};
      if (trace.form == "openb") {
        job.kind = ByShare(row, out);
        job.work = *row.seconds;
      } else {
        EBB_ASSIGN_OR_RETURN(const std::vector<Estimated>* on, EstimatesOf(row));
        EBB_ASSIGN_OR_RETURN(job.work, SecondsOf(row, *on, request_.path));
        job.kind = ByModel(row, *on, out);
        job.foretold = 1 + request_.time_error * (2 * Uniform(times_) - 1);
      }
      out.jobs.push_back(std::move(job));
    }
    return out;
  }

 private:
  std::size_t ByShare(const cluster::TraceJob& row, cluster::Workload& out) {
    const auto [known, is_new] =
        by_share_.try_emplace(std::tuple(row.gpus, row.gpu_milli, row.cpu_milli, row.memory_mib), out.kinds.size());
    if (is_new) {
      out.kinds.push_back({.name = row.gpus == 0 ? "no GPU" : fmt::format("{}x{} m", row.gpus, row.gpu_milli),
                           .gpus = row.gpus,
                           .gpu_milli = row.gpu_milli,
                           .cpu_milli = row.cpu_milli,
                           .memory_mib = row.memory_mib,
                           .on = {}});
    }
    return known->second;
  }

  Result<const std::vector<Estimated>*> EstimatesOf(const cluster::TraceJob& row) {
    const auto [known, is_new] = estimates_.try_emplace(KeyOf(row));
    if (is_new && !row.model.empty()) {
      context_.Tell({.phase = "estimates", .note = fmt::format("{}:{}", row.model, row.batch)});
      Result<std::vector<Estimated>> on = EstimateOn(row, gpus_, context_);
      if (!on && on.error().kind == ErrorKind::kStopped) return tl::unexpected<Error>(on.error());
      if (!on) return Within(fmt::format("{}, line {}", request_.path, row.line), on.error());
      known->second = std::move(*on);
    }
    return &known->second;
  }

  // Jobs that keep the GPU busy alike, to the hundredth, are alike.
  std::size_t ByModel(const cluster::TraceJob& row, const std::vector<Estimated>& on, cluster::Workload& out) {
    std::vector<int> kernels;
    for (const Estimated& one : on) kernels.push_back(static_cast<int>(std::lround(100 * KernelsOf(row, one))));
    const auto [known, is_new] = by_model_.try_emplace(
        std::tuple(KeyOf(row), row.gpus, row.declared, row.memory.value_or(0), kernels), out.kinds.size());
    if (!is_new) return known->second;
    cluster::Kind kind{.name = row.model.empty() ? row.name : fmt::format("{}:{}", row.model, row.batch),
                       .gpus = row.gpus,
                       .declared = row.declared,
                       .on = {}};
    const double error = request_.memory_error * (2 * Uniform(sizes_) - 1);
    for (std::size_t type = 0; type < gpus_.size(); ++type) {
      cluster::OnGpu& here = kind.on.emplace_back();
      if (on.empty()) {
        here.estimate = here.memory = here.reserve = *row.memory;
        continue;
      }
      here.estimate = on[type].total;
      here.reserve = on[type].safe;
      here.memory = row.memory.value_or(on[type].total);
      here.kernels = KernelsOf(row, on[type]);
      here.gpu_share = std::min(1.0, on[type].share);
      const double first = KernelsOf(row, on.front());
      here.speed = 1 / (1 - first + first * on[type].kernels / std::max(on.front().kernels, 1e-12));
    }
    for (cluster::OnGpu& here : kind.on) {
      here.memory = static_cast<Bytes>(static_cast<double>(here.memory) * (1 + error));
    }
    out.kinds.push_back(std::move(kind));
    return known->second;
  }

  static double Uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

  const ClusterRequest& request_;
  const std::vector<DeviceProfile>& gpus_;
  const JobContext& context_;
  std::mt19937_64 sizes_, times_;  // of what is predicted wrongly
  std::map<ModelKey, std::vector<Estimated>> estimates_;
  std::map<std::tuple<int, std::int64_t, std::int64_t, std::int64_t>, std::size_t> by_share_;
  std::map<std::tuple<ModelKey, int, Bytes, Bytes, std::vector<int>>, std::size_t> by_model_;
};

// All jobs in a random order, then jobs drawn at random, a second apart, until they ask for the share of the cluster.
Status Fill(cluster::Workload& workload, const cluster::Hardware& hardware, double share, std::uint64_t seed) {
  const auto capacity = static_cast<double>(hardware.gpus() * cluster::kWholeGpu);
  std::mt19937_64 random(seed);
  std::vector<cluster::Job> jobs = std::move(workload.jobs);
  for (std::size_t i = jobs.size(); i > 1; --i) std::swap(jobs[i - 1], jobs[random() % i]);
  workload.jobs.clear();
  double asked = 0;
  const auto add = [&](const cluster::Job& job) {
    const cluster::Kind& kind = workload.kinds[job.kind];
    asked += static_cast<double>(kind.gpus * kind.gpu_milli);
    workload.jobs.push_back({job.name, job.kind, static_cast<double>(workload.jobs.size()), job.work});
  };
  const bool none =
      std::ranges::all_of(jobs, [&](const cluster::Job& job) { return workload.kinds[job.kind].gpus == 0; });
  if (none) return Fail("--fill: expected jobs that ask for GPUs");
  for (const cluster::Job& job : jobs) {
    if (asked < share * capacity) add(job);
  }
  while (asked < share * capacity && workload.jobs.size() < kMostDrawn) add(jobs[random() % jobs.size()]);
  return {};
}

Result<cluster::Hardware> HardwareOf(const std::string& text, std::vector<DeviceProfile>& gpus) {
  if (text.ends_with(".csv") || text.ends_with(".csv.gz")) return cluster::ReadNodes(text);
  auto groups = cluster::ParseNodes(text);
  if (!groups) return Within("--nodes", groups.error());
  cluster::Hardware out;
  for (const cluster::NodeGroup& group : *groups) {
    auto type =
        static_cast<std::size_t>(std::ranges::find(out.types, group.gpu, &cluster::GpuType::name) - out.types.begin());
    if (type == out.types.size()) {
      EBB_ASSIGN_OR_RETURN(const DeviceProfile profile, FindProfile(group.gpu));
      out.types.push_back({.name = group.gpu, .memory = profile.memory});
      gpus.push_back(profile);
    }
    out.nodes.insert(out.nodes.end(), static_cast<std::size_t>(group.nodes), {.type = type, .gpus = group.gpus});
  }
  return out;
}

Result<std::vector<const cluster::PolicyRow*>> PoliciesOf(const std::vector<std::string>& names) {
  std::vector<const cluster::PolicyRow*> out;
  std::vector<std::string> all;
  for (const cluster::PolicyRow& row : cluster::Policies()) all.emplace_back(row.name);
  for (const std::string& name : names.empty() ? all : names) {
    const cluster::PolicyRow* row = cluster::FindPolicy(name);
    if (row == nullptr) return Fail("--policy {}: expected {}", name, JoinWithOr(all));
    out.push_back(row);
  }
  return out;
}

}  // namespace

const PlacementOutcome* ClusterResult::Find(std::string_view name) const {
  const auto found = std::ranges::find(policies, name, &PlacementOutcome::name);
  return found == policies.end() ? nullptr : &*found;
}

Result<ClusterResult> Cluster(const ClusterRequest& request, const JobContext& context) {
  ClusterResult out;
  out.path = request.path, out.nodes = request.nodes, out.fill = request.fill;
  EBB_ASSIGN_OR_RETURN(const auto policies, PoliciesOf(request.policies));
  if (request.fill && !(*request.fill > 0 && *request.fill <= kMostFill)) {
    return Fail("--fill: expected a share of the cluster above 0 and up to {}", kMostFill);
  }
  if (!(request.memory_error >= 0 && request.memory_error < 1)) {
    return Fail("--memory-error: expected a share from 0 % to below 100 %");
  }
  if (!(request.time_error >= 0 && request.time_error < 1)) {
    return Fail("--time-error: expected a share from 0 % to below 100 %");
  }
  std::vector<DeviceProfile> gpus;
  EBB_ASSIGN_OR_RETURN(out.hardware, HardwareOf(request.nodes, gpus));
  EBB_ASSIGN_OR_RETURN(cluster::Trace trace, cluster::ReadTrace(request.path, request.trace));
  out.form = trace.form;
  out.trace = trace.name;
  out.notes = trace.notes;
  if (trace.form != "openb" && gpus.empty()) {
    return Fail(
        "--nodes {}: expected GPUs by name, as 4x8xa100-40gb: the trace is of models, and the memory of these "
        "GPUs is not known",
        request.nodes);
  }
  if (request.fill && trace.form != "openb") return Fail("--fill: expected a trace that asks for shares of GPUs");
  if (!request.fill) {
    const std::size_t before = trace.jobs.size();
    std::erase_if(trace.jobs, [](const cluster::TraceJob& job) { return job.never_ran; });
    if (trace.jobs.size() < before) {
      out.notes.push_back(fmt::format("{} jobs that never ran in the trace are left out", before - trace.jobs.size()));
    }
    if (trace.jobs.empty()) return Fail("{}: expected jobs that ran", request.path);
  }
  if (std::ranges::any_of(trace.jobs, [](const auto& job) { return job.gpus > 1 && !job.model.empty(); })) {
    out.notes.emplace_back("each GPU of a job with several is taken to need what one alone needs at the batch");
  }
  EBB_ASSIGN_OR_RETURN(out.workload, Kinds(request, gpus, context).Of(trace));
  if (request.fill) EBB_RETURN_IF_ERROR(Fill(out.workload, out.hardware, *request.fill, context.seed));
  for (const cluster::PolicyRow* row : policies) {
    context.Tell({.phase = std::string(row->name), .note = {}});
    const auto policy = row->make(out.hardware, out.workload);
    cluster::SimulateOptions options{.endless = request.fill.has_value(), .stop = context.stop};
    PlacementOutcome one{std::string(row->name), std::string(row->rule),
                         cluster::Simulate(out.hardware, out.workload, *policy, options)};
    EBB_RETURN_IF_ERROR(context.CheckStop());
    out.policies.push_back(std::move(one));
  }
  return out;
}

}  // namespace ebbtide::jobs
