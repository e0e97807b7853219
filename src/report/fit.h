// What `ebbtide fit` shows: the largest batch on each GPU, or the smallest GPU for a batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "report/json.h"
#include "report/terminal.h"

namespace ebbtide::report {

struct FitOnGpu {
  std::string gpu;
  Bytes memory = 0;
  std::int64_t max_batch = 0;  // 0: not even one sample fits
  bool fits_batch = false;     // the batch that was asked for
};

struct Fit {
  std::string model;
  std::optional<std::int64_t> batch;  // that was asked for
  std::vector<FitOnGpu> gpus;         // smallest memory first

  // Of the GPUs on which the batch fits, the one with least memory; null: none, or no batch was asked for.
  const FitOnGpu* smallest() const;
};

// The fields are in docs/command-line.md.
Json FitJson(const Fit& fit);
std::string FitText(const Fit& fit, const Terminal& terminal);

}  // namespace ebbtide::report
