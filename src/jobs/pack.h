// Pack: addresses for items whose sizes and lives are known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "jobs/context.h"
#include "pack/instance_csv.h"

namespace ebbtide::jobs {

struct PackRequest {
  std::string path;                            // a .csv[.gz] of items; with `instance`, what results call it
  std::optional<pack::PackInstance> instance;  // in place of a file
  Bytes capacity = 0;                          // to fit into; 0: the live peak
  Bytes alignment = 1;                         // of every offset
  std::int64_t evaluations = 2'500'000;        // of the search: some seconds on instances of some hundred items
  double time_limit = 0;                       // seconds of the whole job; then the best so far is taken. 0: no limit
};

struct PackResult {
  std::string path;
  pack::PackInstance instance;
  pack::Packing packing;
  Bytes capacity = 0;

  bool fits() const { return packing.height <= capacity; }
};

Result<PackResult> Pack(const PackRequest& request, const JobContext& context);

}  // namespace ebbtide::jobs
