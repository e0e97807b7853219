// What `ebbtide replay` shows of a trace that went through an allocator model, for people and as JSON.
#pragma once

#include <string>

#include "alloc/make.h"
#include "alloc/replay.h"
#include "report/json.h"
#include "report/terminal.h"

namespace ebbtide::report {

struct ReplayReport {
  const alloc::Trace& trace;
  const alloc::ReplayResult& result;
  std::string allocator;  // its name
  std::string options;    // as the user gave them
  std::string gpu;        // empty: only a capacity was given, or nothing
  Bytes capacity = 0;     // kTooLarge: no limit
};

// The fields are in docs/replay.md.
Json ReplayJson(const ReplayReport& report);
std::string ReplayText(const ReplayReport& report, const Terminal& terminal);

}  // namespace ebbtide::report
