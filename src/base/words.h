// Options that are one of a few words.
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "base/result.h"

namespace ebbtide {

template <class T>
struct Word {
  const char* name;
  T value;
};

// What the word stands for; the error lists all of them.
template <class T, std::size_t N>
Result<T> ParseWord(const std::array<Word<T>, N>& words, std::string_view text) {
  std::vector<std::string> names;
  for (const Word<T>& word : words) {
    if (word.name == text) return word.value;
    names.emplace_back(word.name);
  }
  return Fail("expected {}, found {}{}", JoinWithOr(names), text, DidYouMean(text, names));
}

}  // namespace ebbtide
