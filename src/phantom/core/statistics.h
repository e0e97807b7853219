// What the process did with its device, for the JSON file at its end (docs/phantom.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/units.h"

namespace ebbtide::phantom {

// How often, and how many bytes in all.
struct Tally {
  std::atomic<std::int64_t> count{0};
  std::atomic<Bytes> bytes{0};

  std::int64_t Add(Bytes more) {
    bytes.fetch_add(more, std::memory_order_relaxed);
    return count.fetch_add(1, std::memory_order_relaxed) + 1;
  }
};

struct Statistics {
  Tally allocations;  // successful, of device memory: cudaMalloc, cuMemCreate, growth of pools
  Tally frees;
  Tally out_of_memory;  // requests that did not fit
  Tally copies_to_device, copies_to_host, copies_on_device, copies_on_host;
  Tally fills;
  Tally host_reads;        // copies to the host, whatever they gave
  Tally empty_host_reads;  // of them, from memory without content: zeros
  std::atomic<std::int64_t> launches{0};
  std::atomic<std::int64_t> undeclared_launches{0};  // that nobody told the race checker about
  std::atomic<std::int64_t> host_functions{0};
};

class Device;

// Writes <folder>/<pid>.json, under a temporary name first. Where `signal` is not 0 it takes no lock
// and no memory from the heap, since the process may have stopped anywhere. Only the first call does anything.
// `end`: "exit", "_exit" or "signal"; with the last, its number.
inline constexpr std::string_view kSoFar = "so far";  // an `end` that is none: they are written anew later
void WriteStatistics(Device& device, std::string_view end, int signal);

}  // namespace ebbtide::phantom
