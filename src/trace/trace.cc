// Tells the three forms apart by the first byte and the columns, and finds the initial blocks beside a file of events.
#include "trace/trace.h"

#include <sys/stat.h>

#include "base/csv.h"
#include "base/file.h"

namespace ebbtide::trace {
namespace {

constexpr Bytes kLargestFile = 2 * kGiB;

bool Exists(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0;
}

// NAME.initial_blocks.csv[.gz] of NAME.events.csv[.gz]; empty: there is none.
std::string InitialBeside(const std::string& path) {
  for (const std::string_view ending : {".events.csv.gz", ".events.csv"}) {
    if (!path.ends_with(ending)) continue;
    const std::string stem = path.substr(0, path.size() - ending.size()) + ".initial_blocks.csv";
    for (const std::string& name : {stem + ".gz", stem}) {
      if (Exists(name)) return name;
    }
  }
  return "";
}

}  // namespace

Result<Trace> ReadTrace(const std::string& path, const TraceOptions& options) {
  EBB_ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kLargestFile));
  if (content.empty()) return Fail("{}: expected a trace, found an empty file", path);
  if (content[0] == '\x80') return ParseTorchSnapshot(content, path, options);
  if (!CsvReader(content, path).Column("addr")) return ParseOwnTrace(content, path);
  const std::string beside = InitialBeside(path);
  std::string initial;
  if (!beside.empty()) {
    EBB_ASSIGN_OR_RETURN(initial, ReadFile(beside, kLargestFile));
  }
  return ParseTorchEvents(content, path, initial, beside);
}

}  // namespace ebbtide::trace
