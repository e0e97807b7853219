// The text of torch's OutOfMemoryError, as it stands in a log between other lines.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "trace/held.h"

namespace ebbtide::trace {

// Sizes are as the message rounds them: to hundredths of a MiB or GiB. Those that a version does not print are missing.
struct OomText {
  std::int64_t line = 0;  // of the log, from 1 on
  std::string gpu;        // "0"
  Bytes requested = 0;
  std::optional<Bytes> capacity;     // of the device
  std::optional<Bytes> device_free;  // left by all processes
  std::optional<Bytes> in_process;   // of this process, the context and libraries among it
  std::optional<Bytes> allocated;    // by PyTorch
  std::optional<Bytes> reserved;     // by PyTorch, `allocated` among it
  std::optional<Bytes> others;       // other processes that the message names
  Stack stack;                       // of the traceback in front of it, innermost first; may be empty
};

// Every such message of a log, in order.
std::vector<OomText> FindOomTexts(std::string_view log);

}  // namespace ebbtide::trace
