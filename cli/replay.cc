// ebbtide replay TRACE: an allocation trace through an allocator model.
#include "report/replay.h"

#include <fmt/format.h>

#include <memory>

#include "base/units.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "device/profile.h"

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

Result<alloc::DeviceMemory::Options> DeviceOf(const ReplayFlags& flags) {
  alloc::DeviceMemory::Options device;
  if (!flags.gpu.empty()) {
    if (!flags.capacity.empty()) return Fail("--capacity: expected only one of --gpu and --capacity");
    EBB_ASSIGN_OR_RETURN(const DeviceProfile profile, FindProfile(flags.gpu));
    device.total = profile.memory;
    device.taken = profile.context;
  } else if (!flags.capacity.empty()) {
    const Result<Bytes> capacity = ParseBytes(flags.capacity);
    if (!capacity) return Within("--capacity", capacity.error());
    if (*capacity <= 0 || *capacity >= kTooLarge)
      return Fail("--capacity {}: expected more than 0 bytes", flags.capacity);
    device.total = *capacity;
  }
  return device;
}

Result<int> RunReplay(const ReplayFlags& flags) {
  if (flags.trace.empty()) return Fail("expected a TRACE");
  EBB_RETURN_IF_ERROR(CheckOutput(flags.output));
  EBB_ASSIGN_OR_RETURN(const alloc::AllocatorChoice choice, alloc::ChooseAllocator(flags.allocator, flags.options));
  EBB_ASSIGN_OR_RETURN(const alloc::DeviceMemory::Options device_options, DeviceOf(flags));
  EBB_ASSIGN_OR_RETURN(const alloc::Trace trace, alloc::ReadTrace(flags.trace, {.device = flags.device}));
  Remark(flags.output, fmt::format("{}: {} events, {} blocks, {} streams, {} segments to begin with", flags.trace,
                                   trace.events.size(), trace.blocks, trace.streams.size(), trace.segments.size()));
  alloc::DeviceMemory device(device_options);
  alloc::Streams streams;
  const std::unique_ptr<alloc::Allocator> allocator = alloc::MakeAllocator(choice, device, streams);
  alloc::ReplayOptions options;
  options.keep_going = flags.keep_going;
  options.releases_are_the_programs = choice.pytorch.garbage_collection_threshold == 0;
  EBB_ASSIGN_OR_RETURN(const alloc::ReplayResult result, alloc::Replay(trace, *allocator, device, streams, options));
  const report::ReplayReport report{.trace = trace,
                                    .result = result,
                                    .allocator = choice.name,
                                    .options = flags.options,
                                    .gpu = flags.gpu,
                                    .capacity = device.capacity()};
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::ReplayJson(report),
                           [&](const report::Terminal& terminal) { return report::ReplayText(report, terminal); }));
  return result.out_of_memory ? kInfeasible : kSuccess;
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
  for (const alloc::AllocatorModel& model : alloc::AllocatorModels()) {
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
