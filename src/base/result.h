// Result<T>: a value, or one line that says where the input is wrong and what was expected instead.
// Used for bad input and I/O. Broken invariants of our own are asserts, never Results.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace ebbtide {

struct Error {
  std::string message;  // one line: which file, where in it, what was expected
};

template <class T>
using Result = tl::expected<T, Error>;

using Status = tl::expected<void, Error>;

template <class... Args>
tl::unexpected<Error> Fail(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{fmt::format(format, std::forward<Args>(args)...)});
}

// Puts the file (or another place) in front of an error that arose further inside.
inline tl::unexpected<Error> Within(const std::string& place, const Error& error) {
  return tl::unexpected<Error>(Error{place + ": " + error.message});
}

}  // namespace ebbtide

#define EBB_CONCAT_INNER(a, b) a##b
#define EBB_CONCAT(a, b) EBB_CONCAT_INNER(a, b)

// Returns the error of a Status expression from the enclosing function, or goes on.
#define EBB_RETURN_IF_ERROR(expression)                                              \
  if (auto EBB_CONCAT(ebb_status_, __LINE__) = (expression); !EBB_CONCAT(ebb_status_, __LINE__)) \
  return ::tl::unexpected<::ebbtide::Error>(std::move(EBB_CONCAT(ebb_status_, __LINE__)).error())

// EBB_ASSIGN_OR_RETURN(auto graph, ReadFile(path)): the value, or the error to the caller.
#define EBB_ASSIGN_OR_RETURN(target, expression)                                                  \
  auto EBB_CONCAT(ebb_result_, __LINE__) = (expression);                                          \
  if (!EBB_CONCAT(ebb_result_, __LINE__))                                                         \
    return ::tl::unexpected<::ebbtide::Error>(std::move(EBB_CONCAT(ebb_result_, __LINE__)).error()); \
  target = std::move(*EBB_CONCAT(ebb_result_, __LINE__))
