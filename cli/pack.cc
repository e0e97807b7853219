// ebbtide pack INSTANCE.csv: addresses for items whose sizes and lives are known.
#include "jobs/pack.h"

#include <fmt/format.h>

#include <memory>

#include "base/file.h"
#include "base/units.h"
#include "cli/command_context.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "report/json/pack.h"
#include "report/text/pack.h"

namespace ebbtide::cli {
namespace {

const std::int64_t kEvaluations = jobs::PackRequest{}.evaluations;

struct PackFlags {
  std::string instance;
  std::string capacity;
  std::int64_t alignment = 1;
  std::int64_t evaluations = kEvaluations;
  double time_limit = 0;
  std::string file;
  OutputFlags output;
};

Result<jobs::PackRequest> RequestOf(const PackFlags& flags) {
  jobs::PackRequest request;
  request.path = flags.instance;
  request.alignment = flags.alignment;
  request.evaluations = flags.evaluations;
  request.time_limit = flags.time_limit;
  if (!flags.capacity.empty()) {
    const Result<Bytes> capacity = ParseBytes(flags.capacity);
    if (!capacity) return Within("--capacity", capacity.error());
    if (*capacity <= 0) return Fail("--capacity {}: expected more than 0 bytes", flags.capacity);
    request.capacity = *capacity;
  }
  return request;
}

Result<int> RunPack(const PackFlags& flags) {
  if (flags.instance.empty()) return Fail("expected an INSTANCE.csv");
  const bool csv = flags.file.ends_with(".csv") || flags.file.ends_with(".csv.gz");
  OutputFlags output = flags.output;
  if (!csv) output.output = flags.file;
  if (!flags.file.empty())
    EBB_RETURN_IF_ERROR(
        CheckFile(flags.file, {flags.file.ends_with(".gz") ? ".csv.gz" : ".csv", ".json", ".txt", ".html"}));
  EBB_ASSIGN_OR_RETURN(const jobs::PackRequest request, RequestOf(flags));
  EBB_ASSIGN_OR_RETURN(const jobs::PackResult result, jobs::Pack(request, CommandContext(flags.output).job()));
  Remark(output, fmt::format("{}: {} items, {} evaluations", result.path, result.instance.items.size(),
                             result.packing.evaluations));
  if (csv) EBB_RETURN_IF_ERROR(WriteFile(flags.file, pack::PackCsv(result.instance, result.packing.offsets)));
  EBB_RETURN_IF_ERROR(Emit(output, report::PackJson(result),
                           [&](const report::Terminal& terminal) { return report::PackText(result, terminal); }));
  return result.fits() ? kSuccess : kInfeasible;
}

}  // namespace

Verb AddPack(CLI::App& program) {
  CLI::App* app = program.add_subcommand("pack", "Find addresses for items whose sizes and lives are known");
  const auto flags = std::make_shared<PackFlags>();
  app->add_option("INSTANCE", flags->instance, "A .csv[.gz] with the columns id,lower,upper,size")->type_name("");
  app->option_defaults()->group("Packing");
  app->add_option("--capacity", flags->capacity, "Memory to fit into, as 1MiB (default: the live peak)")
      ->type_name("BYTES");
  app->add_option("--alignment", flags->alignment, "Of every offset, in bytes (default 1)")
      ->type_name("N")
      ->check(Check(CheckPositive));
  app->add_option("--evaluations", flags->evaluations, fmt::format("How long to search (default {})", kEvaluations))
      ->type_name("N")
      ->check(Check(CheckPositive));
  app->add_option("--time-limit", flags->time_limit,
                  "Seconds of the whole command; the best by then is taken (default: none)")
      ->type_name("SECONDS");
  AddOutputFlags(*app, flags->output, nullptr);
  app->add_option("-o,--output", flags->file,
                  "Also write: .csv the items with their offsets, .json the object, .txt, .html a page")
      ->type_name("FILE");
  return {app, [flags] { return RunPack(*flags); }};
}

}  // namespace ebbtide::cli
