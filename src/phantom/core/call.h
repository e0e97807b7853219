// Every public function of every phantom library begins with EBB_PHANTOM_CALL. It counts the call, writes it to the
// log, and ends it where a fault is to be injected or the device was lost before.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <type_traits>

#include "phantom/core/code.h"

namespace ebbtide::phantom {

// One per name; never freed, so that a dying process can still list them.
struct CallRecord {
  const char* name = "";
  std::atomic<std::int64_t> count{0};
  std::atomic<std::int64_t> not_modelled{0};
  CallRecord* next = nullptr;
};
// The record that was made last; `next` leads from it to all others.
const CallRecord* AllCalls();
std::int64_t FaultsInjected();

class CallSite {
 public:
  explicit CallSite(const char* name);

  // Counts a call and, where asked to, logs it with its arguments. What it returns, unless it is kSuccess, is what the
  // call has to answer at once.
  template <class... Args>
  Code Enter(const Args&... args) {
    Count();
    if (!Watched()) [[likely]]
      return Code::kSuccess;
    std::string text;
    if (Logged()) (Append(text, args), ...);
    return EnterWatched(text);
  }

 private:
  void Count();
  static bool Watched();  // calls are logged, or some are to fail
  static bool Logged();
  Code EnterWatched(const std::string& arguments);

  static void AppendWord(std::string& text, std::uint64_t value, bool is_negative);
  static void AppendPointer(std::string& text, const void* value);
  static void AppendString(std::string& text, const char* value);

  template <class T>
  static void Append(std::string& text, const T& value) {
    if constexpr (std::is_convertible_v<T, const char*>)
      AppendString(text, value);
    else if constexpr (std::is_pointer_v<T> || std::is_null_pointer_v<T>)
      AppendPointer(text, reinterpret_cast<const void*>(value));
    else if constexpr (std::is_enum_v<T>)
      Append(text, static_cast<std::underlying_type_t<T>>(value));
    else if constexpr (std::is_integral_v<T>)
      AppendWord(text, value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value),
                 value < 0);
    else
      AppendString(text, "...");
  }

  CallRecord* record_;
};

// Whether this process is a fork of one that had used its device; it has none then.
bool InForkedChild();

// From now on every call of the process ends with this code.
void LoseDevice(Code code);
// The code that the device was lost with; kSuccess where it is not lost.
Code LostDevice();

// Counts and names what a library was asked for and does not model: one line on standard error per name.
void NotModelled(const char* call);

}  // namespace ebbtide::phantom

// EBB_PHANTOM_CALL(FromCode, "cublasCreate", handle): `convert` turns a Code into the library's own status.
#define EBB_PHANTOM_CALL(convert, name, ...)                                        \
  static ::ebbtide::phantom::CallSite phantom_call_site(name);                      \
  if (::ebbtide::phantom::Code phantom_code = phantom_call_site.Enter(__VA_ARGS__); \
      phantom_code != ::ebbtide::phantom::Code::kSuccess) [[unlikely]]              \
  return convert(phantom_code)
