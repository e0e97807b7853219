// Finds iterations and counts what they leave.
#include "jobs/explain_leak.h"

#include <algorithm>
#include <map>
#include <utility>

#include "jobs/explain_category.h"

namespace ebbtide::jobs {
namespace {

using trace::Allocation;

constexpr std::size_t kFewestRepeats = 3;
constexpr std::int64_t kFewestCompared = 3;
constexpr double kEven = 0.2;          // how far gaps between repeats may be from their median
constexpr double kLeftInMostOf = 0.8;  // of the iterations compared: a line that left something in these leaks

const trace::Stack* StackOf(const trace::HeldMemory& memory, const Allocation& one) {
  return one.stack == trace::kNoStack ? nullptr : &memory.stacks[static_cast<std::size_t>(one.stack)];
}

template <class T>
T Median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<std::int64_t> EndsByUpdates(const trace::HeldMemory& memory) {
  std::vector<std::int64_t> ends;
  bool in_update = false;
  for (const Allocation& one : memory.allocations) {
    if (one.made < 0) continue;
    const trace::Stack* stack = StackOf(memory, one);
    const bool update = stack != nullptr && IsUpdate(*stack);
    if (in_update && !update) ends.push_back(one.made);
    in_update = update;
  }
  return ends;
}

std::vector<std::int64_t> EndsByRepeats(const trace::HeldMemory& memory) {
  std::map<std::pair<std::int32_t, Bytes>, std::vector<std::int64_t>> repeats;
  for (const Allocation& one : memory.allocations) {
    if (one.made >= 0 && one.stack != trace::kNoStack) repeats[{one.stack, one.requested}].push_back(one.made);
  }
  const std::vector<std::int64_t>* best = nullptr;
  Bytes best_bytes = 0;
  for (const auto& [key, at] : repeats) {
    if (at.size() < kFewestRepeats) continue;
    std::vector<std::int64_t> gaps;
    for (std::size_t i = 1; i < at.size(); ++i) gaps.push_back(at[i] - at[i - 1]);
    const double median = static_cast<double>(Median(gaps));
    const bool even = std::all_of(gaps.begin(), gaps.end(), [&](std::int64_t gap) {
      return static_cast<double>(gap) >= (1 - kEven) * median && static_cast<double>(gap) <= (1 + kEven) * median;
    });
    if (!even) continue;
    // The longest period is the iteration's; inner loops repeat more often.
    if (best == nullptr || at.size() < best->size() || (at.size() == best->size() && key.second > best_bytes)) {
      best = &at;
      best_bytes = key.second;
    }
  }
  return best == nullptr ? std::vector<std::int64_t>() : *best;
}

}  // namespace

std::vector<std::int64_t> IterationEnds(const trace::HeldMemory& memory) {
  std::vector<std::int64_t> ends = EndsByUpdates(memory);
  return ends.size() >= kFewestRepeats ? ends : EndsByRepeats(memory);
}

Leak FindLeak(const trace::HeldMemory& memory) {
  Leak out;
  const std::vector<std::int64_t> ends = IterationEnds(memory);
  const std::int64_t last_end = [&] {
    const auto after = std::upper_bound(ends.begin(), ends.end(), memory.moment);
    return static_cast<std::int64_t>(after - ends.begin()) - 1;  // the last one that lies before the moment
  }();
  // Iteration k lies between ends k and k + 1. What lies before end 0 is the first one, or not whole.
  if (last_end < 1) return out;
  out.iterations = last_end;
  if (out.iterations < kFewestCompared) return out;
  std::map<std::string, std::vector<Bytes>> left;  // by line: bytes by iteration
  for (const std::int64_t index : memory.held) {
    const Allocation& one = memory.allocations[static_cast<std::size_t>(index)];
    const std::int64_t iteration = std::upper_bound(ends.begin(), ends.end(), one.made) - ends.begin() - 1;
    if (one.made < 0 || iteration < 0 || iteration >= last_end) continue;
    const trace::Stack* stack = StackOf(memory, one);
    auto& bytes = left[stack == nullptr ? "" : ProgramLine(*stack)];
    bytes.resize(static_cast<std::size_t>(last_end), 0);
    bytes[static_cast<std::size_t>(iteration)] += one.bytes;
  }
  for (auto& [line, bytes] : left) {
    const auto leaves = std::count_if(bytes.begin(), bytes.end(), [](Bytes b) { return b > 0; });
    if (leaves < kFewestCompared || static_cast<double>(leaves) < kLeftInMostOf * static_cast<double>(last_end)) {
      continue;
    }
    out.lines.push_back({Median(bytes), line});
    out.per_iteration += out.lines.back().bytes_per_iteration;
  }
  std::stable_sort(out.lines.begin(), out.lines.end(), [](const LeakedLine& a, const LeakedLine& b) {
    return a.bytes_per_iteration > b.bytes_per_iteration;
  });
  return out;
}

}  // namespace ebbtide::jobs
