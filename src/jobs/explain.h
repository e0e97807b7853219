// Explain: what a training held when it ran out of memory, by whom, and what would have fitted. From torch's memory
// snapshot, or from the text of its OutOfMemoryError, which tells less.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "jobs/context.h"
#include "trace/held.h"
#include "trace/oom_text.h"

namespace ebbtide::jobs {

struct ExplainRequest {
  std::string path;          // a snapshot (a pickle, of which nothing is executed), or a log
  std::int64_t device = -1;  // of a snapshot of several; -1: the first that has a history
  std::size_t largest = 10;  // how many holders are listed
};

// All that one line of the program held, of one category.
struct Holder {
  Bytes bytes = 0;
  std::int64_t blocks = 0;
  std::string line;      // "train.py:12"; empty: not known
  std::string function;  // that the line is in
  std::string module;    // the innermost `forward` on the way there: "resnet.py:97 forward"; may be empty
  std::string category;  // a key of `held`
};

struct LeakedLine {
  Bytes bytes_per_iteration = 0;
  std::string line;
};

struct ExplainResult {
  std::string path;
  bool from_log = false;
  bool out_of_memory = false;  // false: nothing failed, and the moment is the one at which most was allocated

  // ---- The moment
  Bytes requested = 0;             // by what failed
  std::string failed_line;         // of the program
  std::optional<Bytes> capacity;   // of the device; a snapshot does not have it
  std::optional<Bytes> available;  // to PyTorch: what it had reserved, and what was free
  Bytes allocated = 0, reserved = 0;
  Bytes cached = 0;                      // in segments that hold nothing
  Bytes fragmentation = 0;               // free in segments that are in use
  Bytes rounding = 0;                    // allocated and not asked for
  std::optional<Bytes> outside_pytorch;  // of this process
  std::optional<Bytes> other_processes;
  std::int64_t failures = 0;

  // ---- By whom
  std::map<std::string, Bytes> held;  // by category; the sum is `allocated`
  std::vector<Holder> largest;
  bool has_stacks = false;  // otherwise no line is known

  // ---- Over iterations
  std::int64_t iterations = 0;  // that could be told apart and compared; fewer than 3: a leak cannot be told
  Bytes leak_per_iteration = 0;
  std::vector<LeakedLine> leaks;

  std::vector<std::string> remedies;  // the one that is surest first
  std::vector<std::string> notes;     // what the figures rest on
};

Result<ExplainResult> Explain(const ExplainRequest& request, const JobContext& context);

}  // namespace ebbtide::jobs
