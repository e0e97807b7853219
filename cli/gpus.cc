// ebbtide gpus: which GPUs are built in; with --gpu, one of them or a profile of the user's own.
#include "report/json/gpus.h"

#include <memory>

#include "cli/output.h"
#include "cli/verb.h"
#include "report/text/gpus.h"

namespace ebbtide::cli {
namespace {

struct GpusFlags {
  OutputFlags output;
  std::vector<std::string> gpus;
};

Result<int> RunGpus(const GpusFlags& flags) {
  EBB_RETURN_IF_ERROR(CheckOutput(flags.output));
  std::vector<DeviceProfile> profiles;
  for (const std::string& gpu : flags.gpus) {
    EBB_ASSIGN_OR_RETURN(DeviceProfile profile, FindProfile(gpu));
    profiles.push_back(std::move(profile));
  }
  if (flags.gpus.empty()) profiles = BuiltInProfiles();
  EBB_RETURN_IF_ERROR(Emit(flags.output, report::GpusJson(profiles),
                           [&](const report::Terminal& terminal) { return report::GpusText(profiles, terminal); }));
  return kSuccess;
}

}  // namespace

Verb AddGpus(CLI::App& program) {
  CLI::App* app = program.add_subcommand("gpus", "List the GPUs that are built in");
  const auto flags = std::make_shared<GpusFlags>();
  app->option_defaults()->group("GPU");
  app->add_option("--gpu", flags->gpus, "Only this one, or a profile of your own; may be given several times")
      ->type_name("NAME|FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddOutputFlags(*app, flags->output);
  return {app, [flags] { return RunGpus(*flags); }};
}

}  // namespace ebbtide::cli
