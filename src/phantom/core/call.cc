// Counts, log and faults of calls.
#include "phantom/core/call.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "base/json_text.h"
#include "phantom/core/config.h"
#include "phantom/core/device.h"

namespace ebbtide::phantom {
namespace {

struct ActiveRule {
  explicit ActiveRule(const FaultRule& r) : rule(r) {}
  const FaultRule& rule;
  std::atomic<std::int64_t> seen{0};  // calls that match
};

struct Watch {
  std::atomic<bool> on{false};
  std::atomic<int> lost{0};
  std::atomic<bool> forked{false};
  std::atomic<std::int64_t> injected{0};
  int log = -1;
  std::deque<ActiveRule> rules;

  Watch() {
    const Config& config = TheConfig();
    for (const FaultRule& rule : config.faults) rules.emplace_back(rule);
    if (!config.log.empty()) {
      log = open(config.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
      if (log < 0) {
        std::fprintf(stderr, "phantom: EBBTIDE_PHANTOM_LOG: cannot open %s: %s\n", config.log.c_str(),
                     std::strerror(errno));
        std::_Exit(2);
      }
    }
    on = log >= 0 || !rules.empty() || config.hidden;
    // Threads do not follow into a fork, so its device is dead there, as with the real driver.
    pthread_atfork(nullptr, nullptr, [] { TheWatch().Forked(); });
  }

  void Forked() {
    if (!DeviceExists()) return;
    forked = true;
    on = true;
  }

  static Watch& TheWatch() {
    static Watch* watch = new Watch;
    return *watch;
  }
};

std::atomic<CallRecord*> latest_call{nullptr};

CallRecord* FindOrMake(const char* name) {
  static std::mutex* mutex = new std::mutex;
  static auto* by_name = new std::unordered_map<std::string_view, CallRecord*>;
  std::lock_guard lock(*mutex);
  CallRecord*& record = (*by_name)[name];
  if (!record) {
    record = new CallRecord;
    record->name = name;
    record->next = latest_call.load(std::memory_order_relaxed);
    latest_call.store(record, std::memory_order_release);
  }
  return record;
}

}  // namespace

const CallRecord* AllCalls() { return latest_call.load(std::memory_order_acquire); }

bool InForkedChild() { return Watch::TheWatch().forked.load(std::memory_order_relaxed); }

std::int64_t FaultsInjected() { return Watch::TheWatch().injected.load(std::memory_order_relaxed); }

CallSite::CallSite(const char* name) : record_(FindOrMake(name)) { Watch::TheWatch(); }

void CallSite::Count() { record_->count.fetch_add(1, std::memory_order_relaxed); }

bool CallSite::Watched() { return Watch::TheWatch().on.load(std::memory_order_relaxed); }

bool CallSite::Logged() { return Watch::TheWatch().log >= 0; }

Code CallSite::EnterWatched(const std::string& arguments) {
  Watch& watch = Watch::TheWatch();
  if (watch.forked.load(std::memory_order_relaxed)) return Code::kNotInitialized;
  // NVML does not look at CUDA_VISIBLE_DEVICES.
  if (TheConfig().hidden && !std::string_view(record_->name).starts_with("nvml")) return Code::kNoDevice;
  Code code = static_cast<Code>(watch.lost.load(std::memory_order_acquire));
  if (code == Code::kSuccess) {
    for (ActiveRule& active : watch.rules) {
      if (!active.rule.Matches(record_->name)) continue;
      std::int64_t number = active.seen.fetch_add(1, std::memory_order_relaxed) + 1;
      if (code != Code::kSuccess || !active.rule.Fires(record_->name, number, TheConfig().seed)) continue;
      code = active.rule.code;
      watch.injected.fetch_add(1, std::memory_order_relaxed);
      if (IsSticky(code)) LoseDevice(code);
    }
  }
  if (watch.log >= 0) {
    std::string line = std::to_string(syscall(SYS_gettid)) + " " + record_->name + "(" + arguments + ")";
    if (code != Code::kSuccess) line += " fails with " + std::to_string(static_cast<int>(code));
    line += '\n';
    [[maybe_unused]] ssize_t written = write(watch.log, line.data(), line.size());
  }
  return code;
}

void LoseDevice(Code code) {
  Watch& watch = Watch::TheWatch();
  int none = 0;
  watch.lost.compare_exchange_strong(none, static_cast<int>(code), std::memory_order_acq_rel);
  watch.on.store(true, std::memory_order_release);
}

Code LostDevice() { return static_cast<Code>(Watch::TheWatch().lost.load(std::memory_order_acquire)); }

void NotModelled(const char* call) {
  if (FindOrMake(call)->not_modelled.fetch_add(1, std::memory_order_relaxed) == 0)
    std::fprintf(stderr, "phantom: %s is not modelled\n", call);
}

void CallSite::AppendWord(std::string& text, std::uint64_t value, bool is_negative) {
  if (!text.empty()) text += ", ";
  if (is_negative) text += '-';
  text += std::to_string(value);
}

void CallSite::AppendPointer(std::string& text, const void* value) {
  char digits[24];
  std::snprintf(digits, sizeof(digits), "%#lx", reinterpret_cast<unsigned long>(value));
  text += (text.empty() ? "" : ", ") + std::string(digits);
}

void CallSite::AppendString(std::string& text, const char* value) {
  text += (text.empty() ? "" : ", ") + (value ? Quoted(value) : std::string("null"));
}

}  // namespace ebbtide::phantom
