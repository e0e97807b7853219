// What `ebbtide pack` shows of a static packing, for people and as JSON.
#pragma once

#include <string>

#include "alloc/packing_csv.h"
#include "report/json.h"
#include "report/terminal.h"

namespace ebbtide::report {

struct PackReport {
  std::string path;
  const alloc::PackInstance& instance;
  const alloc::Packing& packing;
  Bytes capacity = 0;

  bool fits() const { return packing.height <= capacity; }
};

// The fields are in docs/pack.md.
Json PackJson(const PackReport& report);
std::string PackText(const PackReport& report, const Terminal& terminal);

}  // namespace ebbtide::report
