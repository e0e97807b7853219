// The lines of each scheduler, a row of the table each.
#include "report/text/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"

namespace ebbtide::report {
namespace {

struct Ask {
  std::int64_t mib = 0;   // of each GPU, its context among it
  std::int64_t gpus = 1;  // of each process group
  std::int64_t gib = 0;   // the same, rounded up
  std::string gpu;
};

// HAMi takes MiB, and its library enforces them.
std::string Hami(const Ask& ask) {
  return fmt::format(
      "# HAMi: limits of the container; enforced by its library\n"
      "resources:\n"
      "  limits:\n"
      "    nvidia.com/gpu: {}\n"
      "    nvidia.com/gpumem: {}  # MiB of each GPU\n",
      ask.gpus, ask.mib);
}

std::string Kai(const Ask& ask) {
  std::string out = fmt::format(
      "# KAI Scheduler: the pod; it schedules by this and does not enforce it\n"
      "metadata:\n"
      "  annotations:\n"
      "    gpu-memory: \"{}\"  # MiB\n",
      ask.mib);
  if (ask.gpus > 1) out += fmt::format("    gpu-fraction-num-devices: \"{}\"\n", ask.gpus);
  return out + "spec:\n  schedulerName: kai-scheduler\n";
}

std::string Mps(const Ask& ask) {
  std::vector<std::string> limits;
  for (std::int64_t gpu = 0; gpu < ask.gpus; ++gpu) limits.push_back(fmt::format("{}={}M", gpu, ask.mib));
  return fmt::format(
      "# MPS: of the process, by its own numbers of the GPUs; enforced by the driver\n"
      "export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=\"{}\"\n",
      fmt::join(limits, ","));
}

// Shards are a site's own: they count as GiB here, which the comment says.
std::string Slurm(const Ask& ask) {
  if (ask.gpus > 1) {
    return fmt::format("# Slurm: a shard is of one GPU; a job on {} takes whole GPUs\n#SBATCH --gres=gpu:{}\n",
                       ask.gpus, ask.gpus);
  }
  return fmt::format(
      "# Slurm: where a GPU has a shard for each GiB (gres.conf: Name=shard Count=...); not enforced\n"
      "#SBATCH --gres=shard:{}\n",
      ask.gib);
}

struct Row {
  const char* name;
  std::string (*lines)(const Ask& ask);
};
constexpr Row kRows[] = {{"hami", Hami}, {"kai", Kai}, {"mps", Mps}, {"slurm", Slurm}};

Ask AskOf(const jobs::EstimateResult& result) {
  return {.mib = (result.safe.bytes + kMiB - 1) / kMiB,
          .gpus = result.layout.gpus,
          .gib = (result.safe.bytes + kGiB - 1) / kGiB,
          .gpu = result.options.gpu.name};
}

}  // namespace

std::vector<std::string> SchedulerNames() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

Status CheckScheduler(const std::string& name) {
  const std::vector<std::string> names = SchedulerNames();
  if (std::ranges::find(names, name) != names.end()) return {};
  return Fail("--emit {}: expected {}", name, JoinWithOr(names));
}

std::string SchedulerLines(const std::string& name, const jobs::EstimateResult& result) {
  const Ask ask = AskOf(result);
  std::string out = fmt::format("# {} on {}: {} estimated, {} to be safe\n", result.model, ask.gpu,
                                FormatBytes(result.estimate.total()), FormatBytes(result.safe.bytes));
  if (result.safe.bytes > result.options.gpu.memory) {
    out += fmt::format("# more than {} has: {}\n", ask.gpu, FormatBytes(result.options.gpu.memory));
  }
  for (const Row& row : kRows) {
    if (row.name == name) out += row.lines(ask);
  }
  return out;
}

Json SchedulerJson(const std::string& name, const jobs::EstimateResult& result) {
  const Ask ask = AskOf(result);
  return {{"scheduler", name}, {"memory_mib", ask.mib}, {"gpus", ask.gpus}, {"text", SchedulerLines(name, result)}};
}

}  // namespace ebbtide::report
