// Fills the template of src/report/page with the data of a timeline, reduced to what a screen can show.
#include "report/page/memory_page.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>

#include "report/json.h"
#include "report/page/page.h"
#include "report/page/texts.h"

namespace ebbtide::report {
namespace {

constexpr std::size_t kSamples = 2000;
constexpr std::size_t kListed = 2000;  // allocations that can be pointed at, by the area they take in the picture
constexpr std::size_t kListedNearPeak = 1500;  // the same in the picture of the window around the peak
constexpr std::size_t kListedAtPeak = 200;     // and those that are live at the peak, by size
constexpr std::int64_t kWindow = 1500;         // events that can be seen one by one, before and behind the peak

// Which allocations are listed one by one.
std::vector<bool> Listed(const MemoryTimeline& timeline, std::int64_t peak, EventRange window) {
  const std::vector<TimedAllocation>& all = timeline.allocations;
  std::vector<bool> listed(all.size(), false);
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  const auto mark_first = [&](std::size_t count, auto more) {
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
    std::partial_sort(order.begin(), end, order.end(), [&](std::size_t a, std::size_t b) {
      const auto left = more(all[a]), right = more(all[b]);
      return left != right ? left > right : a < b;
    });
    std::for_each(order.begin(), end, [&](std::size_t i) { listed[i] = true; });
  };
  const auto area = [&](const TimedAllocation& a, EventRange range) {
    const std::int64_t events = std::min(a.end, range.end) - std::max(a.begin, range.begin);
    return static_cast<double>(a.bytes) * static_cast<double>(std::max<std::int64_t>(0, events));
  };
  mark_first(kListed, [&](const TimedAllocation& a) { return area(a, {0, timeline.events}); });
  mark_first(kListedNearPeak, [&](const TimedAllocation& a) { return area(a, window); });
  mark_first(kListedAtPeak, [&](const TimedAllocation& a) { return a.begin <= peak && peak < a.end ? a.bytes : 0; });
  return listed;
}

// Texts and stacks that are used, numbered anew.
class Used {
 public:
  explicit Used(const MemoryTimeline& timeline) : timeline_(timeline) {}
  int Text(int index) {
    if (index < 0) return -1;
    const auto [at, is_new] = texts_.try_emplace(index, static_cast<int>(texts_.size()));
    if (is_new) text_list_.push_back(timeline_.texts[static_cast<std::size_t>(index)]);
    return at->second;
  }
  int Stack(int index) {
    if (index < 0) return -1;
    const auto [at, is_new] = stacks_.try_emplace(index, static_cast<int>(stacks_.size()));
    if (is_new) {
      Json stack = Json::array();
      for (const int text : timeline_.stacks[static_cast<std::size_t>(index)]) stack.push_back(Text(text));
      stack_list_.push_back(std::move(stack));
    }
    return at->second;
  }
  const Json& texts() const { return text_list_; }
  const Json& stacks() const { return stack_list_; }

 private:
  const MemoryTimeline& timeline_;
  std::unordered_map<int, int> texts_, stacks_;
  Json text_list_ = Json::array(), stack_list_ = Json::array();
};

// By category and sample: bytes and number of the allocations that are not listed.
Json SamplesJson(const MemoryTimeline& timeline, const std::vector<bool>& listed, EventRange window) {
  const std::vector<TimelineSample> samples = SampleTimeline(timeline, kSamples, window);
  std::vector<std::int64_t> at;
  Json reserved = Json::array(), allocated = Json::array();
  for (const TimelineSample& sample : samples) {
    at.push_back(sample.at);
    reserved.push_back(sample.reserved);
    allocated.push_back(sample.allocated());
  }
  const auto sample_of = [&](std::int64_t event) {
    return static_cast<std::size_t>(std::lower_bound(at.begin(), at.end(), event) - at.begin());
  };
  std::array<std::vector<std::int64_t>, kMemoryCategories> bytes, counts;
  for (std::size_t c = 0; c < kMemoryCategories; ++c) {
    bytes[c].assign(at.size() + 1, 0);
    counts[c].assign(at.size() + 1, 0);
  }
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (listed[i]) continue;
    const TimedAllocation& allocation = timeline.allocations[i];
    const auto c = static_cast<std::size_t>(allocation.category);
    const std::size_t begin = sample_of(allocation.begin), end = sample_of(allocation.end);
    bytes[c][begin] += allocation.bytes, bytes[c][end] -= allocation.bytes;
    ++counts[c][begin], --counts[c][end];
  }
  Json rest = Json::array(), numbers = Json::array();
  for (std::size_t c = 0; c < kMemoryCategories; ++c) {
    for (auto* values : {&bytes[c], &counts[c]}) {
      std::partial_sum(values->begin(), values->end(), values->begin());
      values->pop_back();
    }
    rest.push_back(bytes[c]);
    numbers.push_back(counts[c]);
  }
  Json out = Json::object();
  out["at"] = at;
  out["reserved"] = std::move(reserved);
  out["allocated"] = std::move(allocated);
  out["rest"] = std::move(rest);
  out["counts"] = std::move(numbers);
  return out;
}

Json DataOf(const MemoryTimeline& timeline) {
  const std::int64_t peak = PeakEvent(timeline);
  const EventRange window{std::max<std::int64_t>(0, peak - kWindow), std::min(timeline.events, peak + kWindow)};
  const std::vector<bool> listed = Listed(timeline, peak, window);
  Used used(timeline);
  Json big = Json::array();
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (!listed[i]) continue;
    const TimedAllocation& a = timeline.allocations[i];
    big.push_back(
        {a.begin, a.end, a.bytes, static_cast<std::int64_t>(a.category), used.Text(a.name), used.Stack(a.stack)});
  }
  Json data = Json::object();
  data["title"] = timeline.title;
  data["subtitle"] = timeline.subtitle;
  data["about"] = AboutJson(timeline.about);
  data["predicted"] = timeline.predicted;
  data["capacity"] = timeline.capacity;
  data["context"] = timeline.context;
  data["peakReserved"] = timeline.peak_reserved;
  data["peakAllocated"] = timeline.peak_allocated;
  data["total"] = timeline.total;
  data["reservedPlace"] = timeline.reserved_place;
  data["allocatedPlace"] = timeline.allocated_place;
  data["events"] = timeline.events;
  data["peak"] = peak;
  data["window"] = {window.begin, window.end};
  data["categories"] = Json::array();
  for (std::size_t c = 0; c < kMemoryCategories; ++c) {
    data["categories"].push_back(Name(static_cast<MemoryCategory>(c)));
  }
  data["samples"] = SamplesJson(timeline, listed, window);
  data["big"] = std::move(big);
  data["marks"] = Json::array();
  for (const TimelineMark& mark : timeline.marks) data["marks"].push_back({mark.at, mark.label});
  data["texts"] = used.texts();
  data["stacks"] = used.stacks();
  data["failures"] = timeline.failures;
  data["notes"] = timeline.notes;
  return data;
}

}  // namespace

std::string MemoryPage(const MemoryTimeline& timeline) {
  return FillPage({.body = kPageHtml,
                   .css = kPageCss,
                   .js = std::string(kWordsJs) + kReachJs + kPageJs,
                   .title = timeline.title + " · memory",
                   .data = DataOf(timeline)});
}

}  // namespace ebbtide::report
