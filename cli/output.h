// Where a verb's result goes: data to standard output and to the file of -o, all else to standard error.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/common_flags.h"
#include "report/json.h"
#include "report/text/terminal.h"

namespace ebbtide::cli {

// A result for people, laid out for the given terminal.
using TextFor = std::function<std::string(const report::Terminal&)>;

// Plain text of a file: as wide as documents are, without colours.
inline constexpr report::Terminal kTextFile{.interactive = false, .color = false, .unicode = true, .width = 100};

// Refuses a FILE of -o that ends in none of `suffixes` or that could not be written, before the work is done.
Status CheckFile(const std::string& file, const std::vector<std::string>& suffixes);
Status CheckOutput(const OutputFlags& flags, const std::vector<std::string>& suffixes = {".json", ".txt", ".html"});

// What a result can be written as: by the end of a file's name, the longest that fits. Null where this result has no
// such face; the file is then not written, and a remark says why.
struct Face {
  const char* suffix;
  std::function<std::string()> content;
};
// Refuses a file that ends in no suffix of the faces, which need no content for that.
Status CheckFiles(const std::vector<std::string>& files, const std::vector<std::string>& suffixes);
Status WriteFiles(const OutputFlags& flags, const std::vector<std::string>& files, const std::vector<Face>& faces);

// A page with the command, the version and the day in its head. The day is that of SOURCE_DATE_EPOCH where it is set;
// with it, and on the same day without it, the same command makes the same bytes.
std::string Stamped(std::string page);
// What pages say of the command: its words but for those that change nothing in an answer (-o, -q, -v, --json,
// --threads).
void NoteCommandLine(int argc, char** argv);

// Writes the file of -o, if any, then the object (--json) or the text to standard output.
Status Emit(const OutputFlags& flags, const report::Json& result, const TextFor& text);

// A text that is for other programs: to the file of -o, else to standard output, with --json as the field `text` of an
// object. The exit code.
Result<int> EmitScript(const OutputFlags& flags, const char* command, const std::string& text);

// A line on standard error: with -v only, or always but with -q.
void Remark(const OutputFlags& flags, std::string_view line);
void Note(const OutputFlags& flags, std::string_view line);

// "ebbtide inspect: ..." on standard error, on one line whatever the message holds.
void PrintError(std::string_view verb, std::string_view message);

// For a program that has started this one and wants to know what kind of error it was: {"kind", "message"} in the file
// that EBBTIDE_ERROR_FILE names. Does nothing where it names none, or one that cannot be written.
void WriteErrorFile(const Error& error);

}  // namespace ebbtide::cli
