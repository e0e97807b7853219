// Reads a snapshot or a log and says what was held when memory ran out.
#include "jobs/explain.h"

#include <algorithm>
#include <tuple>

#include "base/file.h"
#include "jobs/explain_category.h"
#include "jobs/explain_leak.h"
#include "jobs/explain_remedies.h"

namespace ebbtide::jobs {
namespace {

constexpr Bytes kLargestFile = 2 * kGiB;

void AddHolders(const trace::HeldMemory& memory, std::size_t most, ExplainResult& out) {
  const std::vector<std::string_view> categories = Categories(memory);
  std::map<std::tuple<std::string, std::string_view>, Holder> holders;
  for (const std::int64_t index : memory.held) {
    const trace::Allocation& one = memory.allocations[static_cast<std::size_t>(index)];
    const std::string_view category = categories[static_cast<std::size_t>(index)];
    out.held[std::string(category)] += one.bytes;
    out.rounding += one.bytes - one.requested;
    static const trace::Stack kNone;
    const trace::Stack& stack = one.stack < 0 ? kNone : memory.stacks[static_cast<std::size_t>(one.stack)];
    out.has_stacks = out.has_stacks || !stack.empty();
    const std::string line = ProgramLine(stack);
    Holder& holder = holders[{line, category}];
    if (holder.blocks == 0) {
      holder = {0, 0, line, ProgramFunction(stack), ModuleLine(stack), std::string(category)};
    }
    holder.bytes += one.bytes;
    ++holder.blocks;
  }
  for (auto& [key, holder] : holders) out.largest.push_back(std::move(holder));
  std::stable_sort(out.largest.begin(), out.largest.end(),
                   [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  if (out.largest.size() > most) out.largest.resize(most);
}

void AddNotes(const trace::HeldMemory& memory, ExplainResult& out) {
  if (memory.entries == 0) {
    out.notes.push_back(
        "no history: call torch.cuda.memory._record_memory_history() before what is to be recorded. This is what was "
        "held when the snapshot was made");
  } else if (!out.out_of_memory) {
    out.notes.push_back("no request failed: this is the moment at which most was allocated");
  }
  if (!out.has_stacks) out.notes.push_back("no stacks were recorded: categories and lines are not known");
  if (out.held.contains("gradient") || out.held.contains("temporary")) {
    out.notes.push_back("of backward, blocks of a parameter's size count as gradients, others as temporary");
  }
  if (memory.entries > 0 && out.iterations < 3) {
    out.notes.push_back("too few iterations were recorded to tell a leak: at least four are needed");
  }
}

Result<ExplainResult> ExplainSnapshot(const std::string& content, const ExplainRequest& request) {
  EBB_ASSIGN_OR_RETURN(const trace::HeldMemory memory, trace::ReadHeldMemory(content, request.path, request.device));
  ExplainResult out;
  out.path = request.path;
  out.out_of_memory = memory.failed.has_value();
  out.failures = memory.failures;
  out.allocated = memory.allocated;
  out.reserved = memory.reserved;
  out.cached = memory.cached;
  out.fragmentation = memory.fragmentation();
  if (memory.failed) {
    out.requested = memory.failed->bytes;
    out.available = memory.reserved + memory.failed->device_free;
    if (memory.failed->stack >= 0) {
      out.failed_line = ProgramLine(memory.stacks[static_cast<std::size_t>(memory.failed->stack)]);
    }
  }
  AddHolders(memory, request.largest, out);
  Leak leak = FindLeak(memory);
  out.iterations = leak.iterations;
  out.leak_per_iteration = leak.per_iteration;
  out.leaks = std::move(leak.lines);
  AddNotes(memory, out);
  AddRemedies(out, FitsWithExpandableSegments(content, request, memory));
  return out;
}

Result<ExplainResult> ExplainLog(const std::string& content, const ExplainRequest& request) {
  const std::vector<trace::OomText> texts = trace::FindOomTexts(content);
  if (texts.empty()) {
    return Fail(
        "{}: expected a snapshot of torch.cuda.memory._dump_snapshot, or a log with \"out of memory. Tried to "
        "allocate\"",
        request.path);
  }
  const trace::OomText& text = texts.front();
  ExplainResult out;
  out.path = request.path;
  out.from_log = out.out_of_memory = true;
  out.failures = static_cast<std::int64_t>(texts.size());
  out.requested = text.requested;
  out.failed_line = ProgramLine(text.stack);
  out.capacity = text.capacity;
  out.allocated = text.allocated.value_or(0);
  out.reserved = std::max(text.reserved.value_or(0), out.allocated);
  out.fragmentation = out.reserved - out.allocated;
  out.other_processes = text.others;
  if (text.in_process) out.outside_pytorch = std::max<Bytes>(0, *text.in_process - out.reserved);
  if (text.device_free) out.available = out.reserved + *text.device_free;
  if (out.allocated > 0) out.held["unknown"] = out.allocated;
  out.notes.push_back(
      fmt::format("line {} of the log: sizes are as the message rounds them, and by whom memory was held it does not "
                  "say; a snapshot does (torch.cuda.memory._record_memory_history, then _dump_snapshot)",
                  text.line));
  if (texts.size() > 1) {
    out.notes.push_back(fmt::format("{} more such messages follow: this is the first", texts.size() - 1));
  }
  AddRemedies(out, std::nullopt);
  return out;
}

}  // namespace

Result<ExplainResult> Explain(const ExplainRequest& request, const JobContext& context) {
  EBB_RETURN_IF_ERROR(context.CheckStop());
  EBB_ASSIGN_OR_RETURN(const std::string content, ReadFile(request.path, kLargestFile));
  if (content.empty()) return Fail("{}: expected a snapshot or a log, found an empty file", request.path);
  return content[0] == '\x80' ? ExplainSnapshot(content, request) : ExplainLog(content, request);
}

}  // namespace ebbtide::jobs
