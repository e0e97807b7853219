// Edit distance over names without case and separators.
#include "base/nearest.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

namespace ebbtide {
namespace {

constexpr std::size_t kLongestName = 64;  // no name of ours is longer; keeps the work small on nonsense

std::string Normalized(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '-' && c != '_' && c != '.' && c != ' ')
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

// Insertions, deletions, substitutions and swaps of neighbours that turn one text into the other.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

// Whether somebody who wrote `part` may mean `whole`: its beginning, or enough of it to be told from others.
bool IsPartOf(const std::string& part, const std::string& whole) {
  return (part.size() >= 2 && whole.starts_with(part)) || (part.size() >= 4 && whole.find(part) != std::string::npos);
}

}  // namespace

std::vector<std::string> NearestNames(std::string_view name, const std::vector<std::string>& candidates,
                                      std::size_t count) {
  const std::string wanted = Normalized(name.substr(0, kLongestName));
  if (wanted.empty()) return {};
  std::vector<std::pair<std::size_t, std::string>> near, named;
  for (const std::string& candidate : candidates) {
    const std::string text = Normalized(candidate);
    const std::size_t distance = EditDistance(wanted, text);
    if (distance == 0 || IsPartOf(wanted, text) || (text.size() >= 3 && wanted.ends_with(text))) {
      named.emplace_back(distance, candidate);
    } else if (distance <= std::max<std::size_t>(1, wanted.size() / 3)) {
      near.emplace_back(distance, candidate);
    }
  }
  if (!named.empty()) near = std::move(named);
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // Who writes a name with other dashes means that one alone.
  if (!near.empty() && near.front().first == 0) std::erase_if(near, [](const auto& one) { return one.first > 0; });
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min(count, near.size()); ++i) out.push_back(near[i].second);
  return out;
}

std::string JoinWithOr(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += names[i];
  }
  return out;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::vector<std::string> nearest = NearestNames(name, candidates);
  return nearest.empty() ? std::string() : "; did you mean " + JoinWithOr(nearest) + "?";
}

}  // namespace ebbtide
