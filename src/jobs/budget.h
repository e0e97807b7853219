// What a plan may use, as people write it: one parser and one wording for the command line and for Python.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "device/link.h"
#include "device/profile.h"

namespace ebbtide::jobs {

// Device memory for storages and workspaces: so many bytes, a share of the plain peak, or, where neither is given, what
// the GPU has beside its context.
struct Budget {
  std::optional<Bytes> bytes;
  std::optional<double> percent;  // of the plain peak
  std::string text;               // as it was written, for messages
};

// "8GiB", "60%"; empty: what the GPU has.
Result<Budget> ParseBudget(const std::string& text);
// The budget of a step whose plain peak is known.
Result<Bytes> BudgetBytes(const Budget& budget, const DeviceProfile& gpu, Bytes plain_peak);

// "12GB/s": bytes per second each way; empty: 0, which stands for the GPU's own link.
Result<double> ParseLink(const std::string& text);
// The GPU's link, with that many bytes per second each way; 0: its own.
Link LinkOf(const DeviceProfile& gpu, double bandwidth);

// "64GiB" of pinned host memory; empty: as much as it takes.
Result<Bytes> ParseHostMemory(const std::string& text);

}  // namespace ebbtide::jobs
