// ebbtide replay TRACE: an allocation trace through an allocator model.
#include "jobs/replay.h"

#include <fmt/format.h>

#include <memory>

#include "base/memory_size.h"
#include "base/units.h"
#include "cli/command_context.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "device/profile.h"
#include "report/json/replay.h"
#include "report/text/replay.h"

namespace ebbtide::cli {
namespace {

struct ReplayFlags {
  std::string trace;
  std::string allocator = "pytorch";
  std::string options;
  std::string gpu;
  std::string capacity;
  std::int64_t device = -1;
  bool keep_going = false;
  OutputFlags output;
};

Result<jobs::ReplayRequest> RequestOf(const ReplayFlags& flags) {
  jobs::ReplayRequest request;
  request.path = flags.trace;
  request.device = flags.device;
  request.allocator = flags.allocator;
  request.options = flags.options;
  request.keep_going = flags.keep_going;
  if (!flags.gpu.empty()) {
    EBB_ASSIGN_OR_RETURN(request.gpu, FindProfile(flags.gpu));
    request.gpu_name = flags.gpu;
  }
  if (!flags.capacity.empty()) {
    const Result<Bytes> capacity = ParseMemory(flags.capacity);
    if (!capacity) return Within("--capacity", capacity.error());
    if (*capacity <= 0 || *capacity >= kTooLarge)
      return Fail("--capacity {}: expected more than 0 bytes", flags.capacity);
    request.capacity = *capacity;
  }
  return request;
}

Result<int> RunReplay(const ReplayFlags& flags) {
  if (flags.trace.empty()) return Fail("expected a TRACE");
  EBB_RETURN_IF_ERROR(CheckOutput(flags.output));
  EBB_ASSIGN_OR_RETURN(const jobs::ReplayRequest request, RequestOf(flags));
  EBB_ASSIGN_OR_RETURN(const jobs::ReplayResult result, jobs::Replay(request, CommandContext(flags.output).job()));
  const trace::Trace& trace = result.trace;
  Remark(flags.output, fmt::format("{}: {} events, {} blocks, {} streams, {} segments to begin with", trace.path,
                                   trace.events.size(), trace.blocks, trace.streams.size(), trace.segments.size()));
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::ReplayJson(result),
                           [&](const report::Terminal& terminal) { return report::ReplayText(result, terminal); }));
  return result.replayed.out_of_memory ? kInfeasible : kSuccess;
}

}  // namespace

Verb AddReplay(CLI::App& program) {
  CLI::App* app = program.add_subcommand("replay", "Run an allocation trace through an allocator model");
  const auto flags = std::make_shared<ReplayFlags>();
  app->add_option("TRACE", flags->trace,
                  "A trace as .csv[.gz], or a torch memory snapshot (a pickle, of which nothing is executed)")
      ->type_name("");
  app->option_defaults()->group("Allocator");
  std::string models;
  for (const alloc::AllocatorModel& model : trace::ReplayModels()) {
    models += fmt::format("{}{}", models.empty() ? "" : ", ", model.name);
  }
  app->add_option("--allocator", flags->allocator, "The model: " + models + " (default pytorch)")->type_name("NAME");
  app->add_option("--alloc-conf", flags->options, "Its options, as in PYTORCH_ALLOC_CONF")->type_name("TEXT");
  app->add_option("--gpu", flags->gpu, "A name that `ebbtide gpus` lists, or a profile of your own (default: no limit)")
      ->type_name("NAME");
  app->add_option("--capacity", flags->capacity, "Device memory instead of a GPU's, as 8GiB")->type_name("BYTES");
  app->add_option("--device", flags->device, "Of a snapshot of several (default: the first with a history)")
      ->type_name("N")
      ->check(Check(CheckNotNegative));
  app->add_flag("--keep-going", flags->keep_going, "Go on after a request that failed, as a program that catches it")
      ->disable_flag_override();
  AddOutputFlags(*app, flags->output);
  return {app, [flags] { return RunReplay(*flags); }};
}

}  // namespace ebbtide::cli
