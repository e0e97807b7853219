// What `ebbtide share` shows: whether trainings fit together, how fast they are, where the memory goes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/json.h"
#include "report/terminal.h"
#include "share/baselines/baseline.h"
#include "share/common_batch.h"

namespace ebbtide::report {

struct ShareResult {
  std::string gpu;
  share::Mix mix;
  std::optional<share::CommonBatch> common;     // with --max-batch; its mix is `mix`
  std::vector<share::BaselineResult> compared;  // with --compare
};

// The fields are in docs/command-line.md.
Json ShareJson(const ShareResult& result);
std::string ShareText(const ShareResult& result, const Terminal& terminal);

}  // namespace ebbtide::report
