// Writes what verbs have to say.
#include "cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/nearest.h"
#include "report/page/page.h"
#include "report/page/result_page.h"
#include "report/text/text.h"

namespace ebbtide::cli {
namespace {

// A message quotes what the user wrote; nobody reads a hundred kilobytes of it.
std::string Readable(std::string_view message) {
  constexpr std::size_t kLongest = 2000;
  const bool is_long = message.size() > kLongest;
  return report::Printable(message.substr(0, kLongest)) + (is_long ? " ..." : "");
}

std::string command_line;

void PrintLine(std::string_view line) {
  const std::string text = "ebbtide: " + Readable(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

Status CheckFile(const std::string& file, const std::vector<std::string>& suffixes) {
  const auto ends = [&](const std::string& suffix) { return file.ends_with(suffix); };
  if (std::none_of(suffixes.begin(), suffixes.end(), ends)) {
    return Fail("-o {}: expected a name that ends in {}", file, JoinWithOr(suffixes));
  }
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  // Pipes and devices are opened once only, to be written.
  const bool replaced = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status) ||
                        std::filesystem::is_directory(status);
  if (!replaced) return {};
  if (const auto writer = FileWriter::Create(file); !writer) return Fail("-o {}", writer.error().message);
  return {};
}

Status CheckOutput(const OutputFlags& flags, const std::vector<std::string>& suffixes) {
  return flags.output.empty() ? Status{} : CheckFile(flags.output, suffixes);
}

Status CheckFiles(const std::vector<std::string>& files, const std::vector<std::string>& suffixes) {
  for (const std::string& file : files) EBB_RETURN_IF_ERROR(CheckFile(file, suffixes));
  return {};
}

Status WriteFiles(const OutputFlags& flags, const std::vector<std::string>& files, const std::vector<Face>& faces) {
  for (const std::string& file : files) {
    const Face* best = nullptr;
    for (const Face& face : faces) {
      const std::string_view suffix = face.suffix;
      if (file.ends_with(suffix) && (best == nullptr || suffix.size() > std::string_view(best->suffix).size())) {
        best = &face;
      }
    }
    if (best == nullptr || !best->content) {
      Remark(flags, fmt::format("-o {}: not written: there is nothing of that kind", file));
      continue;
    }
    const std::string content = best->content();
    EBB_RETURN_IF_ERROR(WriteFile(file, std::string_view(best->suffix) == ".html" ? Stamped(content) : content));
    Remark(flags, fmt::format("wrote {}", file));
  }
  return {};
}

std::string Stamped(std::string page) {
  const char* const fixed = std::getenv("SOURCE_DATE_EPOCH");
  const std::time_t now =
      fixed != nullptr ? static_cast<std::time_t>(std::strtoll(fixed, nullptr, 10)) : std::time(nullptr);
  std::tm day = {};
  gmtime_r(&now, &day);
  return report::WithProvenance(
      std::move(page), {.command = command_line,
                        .version = EBBTIDE_VERSION,
                        .date = fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday)});
}

void NoteCommandLine(int argc, char** argv) {
  constexpr std::array kWithValue = {"-o", "--output", "--threads"};
  constexpr std::array kAlone = {"-q", "--quiet", "-v", "--verbose", "--json"};
  const auto is_any = [](std::string_view word, const auto& list) {
    return std::ranges::find(list, word) != list.end();
  };
  command_line = "ebbtide";
  bool ours = true;  // until "--"
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    ours = ours && word != "--";
    if (ours && is_any(word, kWithValue)) {
      ++i;
    } else if (!ours || (!is_any(word, kAlone) && !is_any(word.substr(0, word.find('=')), kWithValue))) {
      const bool plain = !word.empty() && word.find_first_of(" \t\n'\"\\$`*?[](){}<>|&;#!~") == std::string_view::npos;
      command_line += plain ? fmt::format(" {}", word) : fmt::format(" '{}'", word);
    }
  }
}

Status Emit(const OutputFlags& flags, const report::Json& result, const TextFor& text) {
  if (!flags.output.empty()) {
    if (flags.output.ends_with(".html")) {
      EBB_ASSIGN_OR_RETURN(const std::string page, report::ResultPage(result));
      EBB_RETURN_IF_ERROR(WriteFile(flags.output, Stamped(page)));
    } else {
      const bool json = flags.output.ends_with(".json");
      EBB_RETURN_IF_ERROR(WriteFile(flags.output, json ? report::Print(result) : text(kTextFile)));
    }
  }
  const report::Terminal terminal = report::DescribeTerminal(STDOUT_FILENO);
  const std::string data = flags.json ? report::Print(result) : report::FitLines(text(terminal), terminal.width);
  if (std::fwrite(data.data(), 1, data.size(), stdout) != data.size() || std::fflush(stdout) != 0) {
    return Fail("standard output: {}", std::strerror(errno));
  }
  return {};
}

Result<int> EmitScript(const OutputFlags& flags, const char* command, const std::string& text) {
  if (!flags.output.empty()) {
    EBB_RETURN_IF_ERROR(WriteFile(flags.output, text));
    Remark(flags, fmt::format("wrote {}", flags.output));
    if (!flags.json) return 0;
  }
  report::Json object = report::NewResult(command);
  object["text"] = text;
  const std::string data = flags.json ? report::Print(object) : text;
  if (std::fwrite(data.data(), 1, data.size(), stdout) != data.size() || std::fflush(stdout) != 0) {
    return Fail("standard output: {}", std::strerror(errno));
  }
  return 0;
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
  const std::string text = report::Paint(report::Style::kRed, where, terminal) + " " + Readable(message) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void WriteErrorFile(const Error& error) {
  const char* const file = std::getenv("EBBTIDE_ERROR_FILE");
  if (file == nullptr || *file == '\0') return;
  const report::Json object = {{"kind", KindName(error.kind)}, {"message", error.message}};
  (void)WriteFile(file, report::Print(object));  // the error itself is what the user is told
}

}  // namespace ebbtide::cli
