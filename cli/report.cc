// ebbtide report RESULT.json -o report.html: what a verb has printed with --json, as a page.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/file.h"
#include "cli/common_flags.h"
#include "cli/output.h"
#include "cli/verb.h"
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

Result<int> RunReport(const ReportFlags& flags) {
  if (flags.path.empty()) return Fail("expected a RESULT.json, as a verb prints it with --json");
  const std::string& to = flags.output.output;
  if (to.empty()) return Fail("expected -o FILE for the page");
  EBB_RETURN_IF_ERROR(CheckOutput(flags.output, {".html"}));
  EBB_ASSIGN_OR_RETURN(const report::Json result, ReadResult(flags.path));
  const Result<std::string> page = report::ResultPage(result);
  if (!page) return Within(flags.path, page.error());
  EBB_RETURN_IF_ERROR(WriteFile(to, *page));
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
  app->add_option("RESULT.json", flags->path, "What --json or -o x.json gave")->type_name("");
  AddOutputFlags(*app, flags->output, "The page, .html");
  return {app, [flags] { return RunReport(*flags); }};
}

}  // namespace ebbtide::cli
