// Flags whose value is one of a few words.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <string>

#include "base/words.h"

namespace ebbtide::cli {

// `words` lives as long as the program does; `target` is a T or an optional of one.
template <class T, std::size_t N, class Target>
CLI::Option* AddWords(CLI::App& verb, const char* flag, const std::array<Word<T>, N>& words, Target& target,
                      const char* description) {
  const auto parse = [flag, &words, &target](const std::string& text) {
    const Result<T> value = ParseWord(words, text);
    if (!value) throw CLI::ValidationError(flag, value.error().message);
    target = *value;
  };
  return verb.add_option_function<std::string>(flag, parse, description)->type_name("NAME");
}

}  // namespace ebbtide::cli
