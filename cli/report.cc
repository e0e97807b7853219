// ebbtide report RESULT.json -o report.html: what a verb has printed with --json, as a page.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/file.h"
#include "cli/command_context.h"
#include "cli/common_flags.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "jobs/inspect.h"
#include "report/json/inspect.h"
#include "report/page/result_page.h"

namespace ebbtide::cli {
namespace {

constexpr Bytes kLargestResult = 256 * kMiB;
constexpr int kDeepest = 32;  // levels; ours have four

struct ReportFlags {
  std::string path;
  OutputFlags output;
};

Result<report::Json> ReadResult(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kLargestResult));
  bool too_deep = false;
  try {
    report::Json result =
        report::Json::parse(text, [&](int depth, auto, auto&) { return !(too_deep |= depth > kDeepest); });
    if (too_deep) return Fail("{}: expected at most {} levels", path, kDeepest);
    return result;
  } catch (const report::Json::parse_error& error) {
    return Fail("{}: byte {}: expected JSON, as a verb prints it with --json", path, error.byte);
  } catch (const report::Json::out_of_range&) {
    return Fail("{}: expected numbers within 64 bits, found a larger one", path);
  }
}

// Of a captured step: what `ebbtide inspect` tells of it.
Result<std::string> GraphPage(const ReportFlags& flags) {
  jobs::InspectRequest request;
  request.model.model = flags.path;
  EBB_ASSIGN_OR_RETURN(const jobs::InspectResult result, jobs::Inspect(request, CommandContext(flags.output).job()));
  return report::ResultPage(report::InspectJson(result));
}

Result<int> RunReport(const ReportFlags& flags) {
  if (flags.path.empty()) return Fail("expected a RESULT.json, as a verb prints it with --json");
  const std::string& to = flags.output.output;
  if (to.empty()) return Fail("expected -o FILE for the page");
  EBB_RETURN_IF_ERROR(CheckOutput(flags.output, {".html"}));
  EBB_ASSIGN_OR_RETURN(const report::Json result, ReadResult(flags.path));
  const bool is_graph = result.is_object() && result.value("format", report::Json()) == "ebbtide.graph";
  const Result<std::string> page = is_graph ? GraphPage(flags) : report::ResultPage(result);
  if (!page && is_graph) return tl::unexpected<Error>(page.error());
  if (!page) return Within(flags.path, page.error());
  EBB_RETURN_IF_ERROR(WriteFile(to, Stamped(*page)));
  Remark(flags.output, fmt::format("wrote {}", to));
  if (flags.output.json) {
    report::Json said = report::NewResult("report");
    said["result"] = flags.path;
    said["page"] = to;
    fmt::print("{}", report::Print(said));
  }
  return 0;
}

}  // namespace

Verb AddReport(CLI::App& program) {
  CLI::App* app = program.add_subcommand("report", "A page of what a verb has printed with --json");
  const auto flags = std::make_shared<ReportFlags>();
  app->add_option("RESULT.json", flags->path,
                  "What a verb gave with --json or -o x.json: a result, a plan, a captured step")
      ->type_name("");
  AddOutputFlags(*app, flags->output, "The page, .html");
  return {app, [flags] { return RunReport(*flags); }};
}

}  // namespace ebbtide::cli
