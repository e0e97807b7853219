// ebbtide pack INSTANCE.csv: addresses for items whose sizes and lives are known.
#include "report/pack.h"

#include <fmt/format.h>

#include <memory>

#include "base/file.h"
#include "base/units.h"
#include "cli/output.h"
#include "cli/verb.h"

namespace ebbtide::cli {
namespace {

// Enough for some seconds on instances of some hundred items.
constexpr std::int64_t kEvaluations = 2'500'000;

struct PackFlags {
  std::string instance;
  std::string capacity;
  std::int64_t alignment = 1;
  std::int64_t evaluations = kEvaluations;
  double time_limit = 0;
  std::string file;
  OutputFlags output;
};

Result<alloc::PackOptions> OptionsOf(const PackFlags& flags) {
  alloc::PackOptions options;
  options.alignment = flags.alignment;
  options.seed = flags.output.seed;
  options.evaluations = flags.evaluations;
  options.time_limit = flags.time_limit;
  if (!(flags.time_limit >= 0)) return Fail("--time-limit: expected seconds from 0 on, found {}", flags.time_limit);
  if (!flags.capacity.empty()) {
    const Result<Bytes> capacity = ParseBytes(flags.capacity);
    if (!capacity) return Within("--capacity", capacity.error());
    if (*capacity <= 0) return Fail("--capacity {}: expected more than 0 bytes", flags.capacity);
    options.capacity = *capacity;
  }
  return options;
}

Result<int> RunPack(const PackFlags& flags) {
  if (flags.instance.empty()) return Fail("expected an INSTANCE.csv");
  const bool csv = flags.file.ends_with(".csv") || flags.file.ends_with(".csv.gz");
  OutputFlags output = flags.output;
  if (!csv) output.output = flags.file;
  if (!flags.file.empty())
    EBB_RETURN_IF_ERROR(CheckFile(flags.file, {flags.file.ends_with(".gz") ? ".csv.gz" : ".csv", ".json", ".txt"}));
  EBB_ASSIGN_OR_RETURN(alloc::PackOptions options, OptionsOf(flags));
  EBB_ASSIGN_OR_RETURN(const alloc::PackInstance instance, alloc::ReadPackInstance(flags.instance));
  if (const Status status = alloc::CheckPackItems(instance.items, options.alignment); !status) {
    return Within(flags.instance, status.error());
  }
  const alloc::Packing packing = alloc::Pack(instance.items, options);
  const Bytes capacity = options.capacity > 0 ? options.capacity : packing.lower_bound;
  Remark(output,
         fmt::format("{}: {} items, {} evaluations", flags.instance, instance.items.size(), packing.evaluations));
  if (csv) EBB_RETURN_IF_ERROR(WriteFile(flags.file, alloc::PackCsv(instance, packing.offsets)));
  const report::PackReport report{
      .path = flags.instance, .instance = instance, .packing = packing, .capacity = capacity};
  EBB_RETURN_IF_ERROR(Emit(output, report::PackJson(report),
                           [&](const report::Terminal& terminal) { return report::PackText(report, terminal); }));
  return report.fits() ? kSuccess : kInfeasible;
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
  app->add_option("--time-limit", flags->time_limit, "Seconds after which the best so far is taken (default: none)")
      ->type_name("SECONDS");
  AddOutputFlags(*app, flags->output, nullptr);
  app->add_option("-o,--output", flags->file, "Also write: .csv the items with their offsets, .json the object, .txt")
      ->type_name("FILE");
  return {app, [flags] { return RunPack(*flags); }};
}

}  // namespace ebbtide::cli
