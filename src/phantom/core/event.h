// Events: marks in streams that other streams and the host can wait for.
#pragma once

#include <mutex>
#include <optional>

#include "base/units.h"
#include "phantom/core/code.h"
#include "phantom/core/stream.h"

namespace ebbtide::phantom {

// Thread-safe.
class Event {
 public:
  static constexpr unsigned kDisableTiming = 2;

  Event(Device& device, unsigned flags) : device_(device), flags_(flags) {}

  void Record(Stream& stream);
  // Whether all before the last record is over. An event that was never recorded is over.
  bool Query();
  void Synchronize();
  Code MakeWait(Stream& stream);  // as Stream::WaitFor
  // Whether the last record was captured: then there is nothing to ask or to wait for.
  bool IsCaptured();
  unsigned flags() const { return flags_; }

  // Virtual time between two records. kInvalidHandle: not recorded, or without timing; kNotReady: not over yet.
  static Code Elapsed(Event& from, Event& to, Nanos& out);

 private:
  std::optional<Mark> Last();

  Device& device_;
  const unsigned flags_;
  std::mutex mutex_;
  std::optional<Mark> last_;
};

}  // namespace ebbtide::phantom
