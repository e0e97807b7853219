#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/file.h"
#include "report/text.h"

namespace ebbtide::cli {
namespace {

void PrintLine(std::string_view line) {
  const std::string text = "ebbtide: " + report::Printable(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

Status CheckOutput(const OutputFlags& flags) {
  if (flags.output.empty() || flags.output.ends_with(".json") || flags.output.ends_with(".txt")) return {};
  return Fail("-o {}: expected a name that ends in .json or .txt", flags.output);
}

Status Emit(const OutputFlags& flags, const report::Json& result, const TextFor& text) {
  if (!flags.output.empty()) {
    const bool json = flags.output.ends_with(".json");
    EBB_RETURN_IF_ERROR(WriteFile(flags.output, json ? report::Print(result) : text(kTextFile)));
  }
  const std::string data = flags.json ? report::Print(result) : text(report::DescribeTerminal(STDOUT_FILENO));
  if (std::fwrite(data.data(), 1, data.size(), stdout) != data.size() || std::fflush(stdout) != 0) {
    return Fail("standard output: {}", std::strerror(errno));
  }
  return {};
}

void Remark(const OutputFlags& flags, std::string_view line) {
  if (flags.verbose && !flags.quiet) PrintLine(line);
}

void Note(const OutputFlags& flags, std::string_view line) {
  if (!flags.quiet) PrintLine(line);
}

void PrintError(std::string_view verb, std::string_view message) {
  const report::Terminal terminal = report::DescribeTerminal(STDERR_FILENO);
  const std::string where = verb.empty() ? "ebbtide:" : "ebbtide " + std::string(verb) + ":";
  const std::string text =
      report::Paint(report::Style::kRed, where, terminal) + " " + report::Printable(message) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace ebbtide::cli
