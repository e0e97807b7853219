// Result<T>: a value, or one line that says where the input is wrong and what was expected instead.
// Used for bad input and I/O. Broken invariants of our own are asserts, never Results.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace ebbtide {

// What kind of failure it is: what a caller decides by, and what becomes an exception class in Python.
enum class ErrorKind : std::uint8_t {
  kInput,        // bad usage or bad input
  kTold,         // as kInput, and a program that we started has told the user already: nothing is to be printed
  kCapture,      // a step cannot be captured, or cannot be captured here
  kPlan,         // a plan that does not go with its graph, or breaks a rule
  kMemory,       // this machine has not enough memory
  kStopped,      // whoever waits for it asked it to stop
  kUnavailable,  // a part of Ebbtide that it takes is not installed here
};

// "capture": for those who learn of an error from a file (EBBTIDE_ERROR_FILE, docs/command-line.md).
constexpr const char* KindName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInput: return "input";
    case ErrorKind::kTold: return "told";
    case ErrorKind::kCapture: return "capture";
    case ErrorKind::kPlan: return "plan";
    case ErrorKind::kMemory: return "memory";
    case ErrorKind::kStopped: return "stopped";
    case ErrorKind::kUnavailable: return "unavailable";
  }
  return "input";
}

struct Error {
  std::string message;  // one line: which file, where in it, what was expected
  ErrorKind kind = ErrorKind::kInput;
};

template <class T>
using Result = tl::expected<T, Error>;

using Status = tl::expected<void, Error>;

template <class... Args>
tl::unexpected<Error> Fail(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{fmt::format(format, std::forward<Args>(args)...), ErrorKind::kInput});
}

template <class... Args>
tl::unexpected<Error> FailAs(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{fmt::format(format, std::forward<Args>(args)...), kind});
}

// Puts the file (or another place) in front of an error that arose further inside.
inline tl::unexpected<Error> Within(const std::string& place, const Error& error) {
  return tl::unexpected<Error>(Error{place + ": " + error.message, error.kind});
}

}  // namespace ebbtide

#define EBB_CONCAT_INNER(a, b) a##b
#define EBB_CONCAT(a, b) EBB_CONCAT_INNER(a, b)

// Returns the error of a Status expression from the enclosing function, or goes on.
#define EBB_RETURN_IF_ERROR(expression)                                                          \
  if (auto EBB_CONCAT(ebb_status_, __LINE__) = (expression); !EBB_CONCAT(ebb_status_, __LINE__)) \
  return ::tl::unexpected<::ebbtide::Error>(std::move(EBB_CONCAT(ebb_status_, __LINE__)).error())

// EBB_ASSIGN_OR_RETURN(auto graph, ReadFile(path)): the value, or the error to the caller.
#define EBB_ASSIGN_OR_RETURN(target, expression)                                                     \
  auto EBB_CONCAT(ebb_result_, __LINE__) = (expression);                                             \
  if (!EBB_CONCAT(ebb_result_, __LINE__))                                                            \
    return ::tl::unexpected<::ebbtide::Error>(std::move(EBB_CONCAT(ebb_result_, __LINE__)).error()); \
  target = std::move(*EBB_CONCAT(ebb_result_, __LINE__))
