// Reads the file that the Python module writes, and samples a timeline by one sweep over its events.
#include "report/memory_timeline.h"

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/json_reader.h"

namespace ebbtide::report {
namespace {

constexpr std::array<const char*, kMemoryCategories> kNames = {"Parameter", "Buffer",     "Optstate", "Other",
                                                               "Gradient",  "Activation", "Temp"};
constexpr Bytes kLargestFile = 512 * kMiB;
constexpr std::int64_t kMostEvents = std::int64_t{1} << 40;

void ReadTexts(JsonReader& in, std::vector<std::string>& texts) {
  in.BeginList();
  while (in.NextItem()) texts.emplace_back(in.String());
}

// [begin, end, bytes, category, name, stack]
TimedAllocation ReadAllocation(JsonReader& in) {
  std::array<std::int64_t, 6> numbers{};
  std::size_t count = 0;
  in.BeginList("[begin, end, bytes, category, name, stack]");
  while (in.NextItem()) {
    const std::int64_t number = in.Integer("an integer", -1, kTooLarge);
    if (count < numbers.size()) numbers[count] = number;
    ++count;
  }
  if (in.ok() && (count != numbers.size() || numbers[0] < 0 || numbers[1] < numbers[0] || numbers[2] < 0 ||
                  numbers[3] < 0 || numbers[3] >= static_cast<std::int64_t>(kMemoryCategories))) {
    in.FailWith("expected [begin, end, bytes, category, name, stack]");
  }
  if (!in.ok()) return {};
  return {.begin = numbers[0],
          .end = numbers[1],
          .bytes = numbers[2],
          .category = static_cast<MemoryCategory>(numbers[3]),
          .name = static_cast<int>(std::min<std::int64_t>(numbers[4], INT32_MAX)),
          .stack = static_cast<int>(std::min<std::int64_t>(numbers[5], INT32_MAX))};
}

MemoryTimeline::Level ReadLevel(JsonReader& in) {
  MemoryTimeline::Level level;
  in.BeginList("[event, bytes]");
  if (in.NextItem()) level.at = in.Integer("an event", 0, kMostEvents);
  if (in.NextItem()) level.bytes = in.Integer("bytes", 0, kTooLarge);
  if (in.NextItem()) in.FailWith("expected [event, bytes]");
  return level;
}

TimelineMark ReadMark(JsonReader& in) {
  TimelineMark mark;
  in.BeginList("[event, label]");
  if (in.NextItem()) mark.at = in.Integer("an event", 0, kMostEvents);
  if (in.NextItem()) mark.label = in.String("a label");
  if (in.NextItem()) in.FailWith("expected [event, label]");
  return mark;
}

// Indices that lead nowhere mean "not known"; times past the end mean the end.
void Tidy(MemoryTimeline& timeline) {
  const auto texts = static_cast<int>(timeline.texts.size()), stacks = static_cast<int>(timeline.stacks.size());
  for (TimedAllocation& allocation : timeline.allocations) {
    if (allocation.name >= texts) allocation.name = -1;
    if (allocation.stack >= stacks) allocation.stack = -1;
    allocation.begin = std::min(allocation.begin, timeline.events);
    allocation.end = std::min(allocation.end, timeline.events);
  }
  for (std::vector<int>& stack : timeline.stacks)
    std::erase_if(stack, [&](int text) { return text < 0 || text >= texts; });
  std::stable_sort(timeline.allocations.begin(), timeline.allocations.end(),
                   [](const TimedAllocation& a, const TimedAllocation& b) { return a.begin < b.begin; });
  std::stable_sort(timeline.reserved.begin(), timeline.reserved.end(), [](auto& a, auto& b) { return a.at < b.at; });
}

// Those that end before the last event, in the order of their ends. Events are numbers up to a known one, and as many
// as allocations in order of magnitude where they are ours: then they are counted, not compared.
std::vector<const TimedAllocation*> ByEnd(const MemoryTimeline& timeline) {
  const std::size_t count = timeline.allocations.size();
  std::vector<const TimedAllocation*> ends;
  ends.reserve(count);
  for (const TimedAllocation& allocation : timeline.allocations) {
    if (allocation.end < timeline.events) ends.push_back(&allocation);
  }
  const bool is_odd = std::ranges::any_of(ends, [](auto* one) { return one->end < 0; });  // a file may say anything
  if (is_odd || static_cast<std::uint64_t>(timeline.events) > 8 * static_cast<std::uint64_t>(count)) {
    std::stable_sort(ends.begin(), ends.end(), [](auto* a, auto* b) { return a->end < b->end; });
    return ends;
  }
  std::vector<std::uint32_t> next(static_cast<std::size_t>(timeline.events) + 1);
  for (const TimedAllocation* one : ends) ++next[static_cast<std::size_t>(one->end) + 1];
  for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
  std::vector<const TimedAllocation*> ordered(ends.size());
  for (const TimedAllocation* one : ends) ordered[next[static_cast<std::size_t>(one->end)]++] = one;
  return ordered;
}

// Calls `visit(event, bytes by category, their sum)` for every event at which an allocation begins or ends, in order.
template <class Visit>
void Sweep(const MemoryTimeline& timeline, Visit visit) {
  const std::vector<const TimedAllocation*> ends = ByEnd(timeline);
  std::array<Bytes, kMemoryCategories> bytes{};
  Bytes sum = 0;
  const auto add = [&](MemoryCategory category, Bytes change) {
    bytes[static_cast<std::size_t>(category)] += change;
    sum += change;
  };
  std::size_t next_end = 0;
  for (std::size_t i = 0; i < timeline.allocations.size() || next_end < ends.size();) {
    const std::int64_t begin = i < timeline.allocations.size() ? timeline.allocations[i].begin : timeline.events;
    const std::int64_t end = next_end < ends.size() ? ends[next_end]->end : timeline.events;
    const std::int64_t now = std::min(begin, end);
    for (; next_end < ends.size() && ends[next_end]->end == now; ++next_end) {
      add(ends[next_end]->category, -ends[next_end]->bytes);
    }
    for (; i < timeline.allocations.size() && timeline.allocations[i].begin == now; ++i) {
      add(timeline.allocations[i].category, timeline.allocations[i].bytes);
    }
    visit(now, bytes, sum);
  }
}

}  // namespace

const char* Name(MemoryCategory category) { return kNames[static_cast<std::size_t>(category)]; }

Result<MemoryTimeline> ReadTimeline(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kLargestFile));
  return ParseTimeline(text, path);
}

Result<MemoryTimeline> ParseTimeline(std::string_view text, const std::string& path) {
  MemoryTimeline timeline;
  JsonReader in(text);
  in.BeginObject();
  while (in.NextKey()) {
    const std::string key(in.key());
    if (key == "format") {
      if (in.String("\"ebbtide.timeline\"") != "ebbtide.timeline") in.FailLast("\"ebbtide.timeline\"");
    } else if (key == "version") {
      in.Integer("version 1", 1, 1);
    } else if (key == "events") {
      timeline.events = in.Integer("a count", 0, kMostEvents);
    } else if (key == "allocations") {
      in.BeginList();
      while (in.NextItem()) timeline.allocations.push_back(ReadAllocation(in));
    } else if (key == "reserved") {
      in.BeginList();
      while (in.NextItem()) timeline.reserved.push_back(ReadLevel(in));
    } else if (key == "marks") {
      in.BeginList();
      while (in.NextItem()) timeline.marks.push_back(ReadMark(in));
    } else if (key == "texts") {
      ReadTexts(in, timeline.texts);
    } else if (key == "stacks") {
      in.BeginList();
      while (in.NextItem()) {
        in.BeginList();
        std::vector<int>& stack = timeline.stacks.emplace_back();
        while (in.NextItem()) stack.push_back(static_cast<int>(in.Integer("a text", 0, INT32_MAX)));
      }
    } else if (key == "notes") {
      ReadTexts(in, timeline.notes);
    } else {
      in.FailWith("not a field of a timeline");
    }
  }
  in.End();
  if (!in.ok()) return Within(path, in.error());
  Tidy(timeline);
  return timeline;
}

std::vector<TimelineSample> SampleTimeline(const MemoryTimeline& timeline, std::size_t count) {
  return SampleTimeline(timeline, count, {});
}

std::vector<TimelineSample> SampleTimeline(const MemoryTimeline& timeline, std::size_t count, EventRange closely) {
  std::vector<TimelineSample> samples;
  if (count == 0 || timeline.events == 0) return samples;
  const auto share = [&](std::int64_t event) {
    return static_cast<std::size_t>(static_cast<double>(event) / static_cast<double>(timeline.events) *
                                    static_cast<double>(count));
  };
  std::size_t last_share = count;
  Bytes most = 0;  // of the last sample
  Sweep(timeline, [&](std::int64_t at, const std::array<Bytes, kMemoryCategories>& bytes, Bytes allocated) {
    const std::size_t of = std::min(share(at), count - 1);
    const bool is_close = closely.begin <= at && at < closely.end;
    const bool is_new = is_close || samples.empty() || of != last_share;
    last_share = is_close ? count : of;
    if (!is_new && allocated <= most) return;
    if (is_new) samples.emplace_back();
    samples.back().at = at;
    std::copy(bytes.begin(), bytes.end(), samples.back().by_category);
    most = allocated;
  });
  std::size_t level = 0;
  for (TimelineSample& sample : samples) {
    while (level + 1 < timeline.reserved.size() && timeline.reserved[level + 1].at <= sample.at) ++level;
    if (level < timeline.reserved.size() && timeline.reserved[level].at <= sample.at) {
      sample.reserved = timeline.reserved[level].bytes;
    }
  }
  return samples;
}

std::int64_t PeakEvent(const MemoryTimeline& timeline) {
  const std::vector<TimelineSample> peak = SampleTimeline(timeline, 1);
  return peak.empty() ? -1 : peak[0].at;
}

}  // namespace ebbtide::report
