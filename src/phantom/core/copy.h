// Copies and fills in stream order. Bytes move where memory has content. Device memory without content takes what is
// written to it for nothing and reads as zeros; such reads by the host are counted and said once.
#pragma once

#include "base/units.h"
#include "phantom/core/address_space.h"
#include "phantom/core/code.h"
#include "phantom/core/statistics.h"
#include "phantom/core/stream.h"

namespace ebbtide::phantom {

struct CopyRequest {
  const char* name = "";  // of the call
  Address to = 0;
  Address from = 0;
  Bytes width = 0;   // of a row
  Bytes height = 1;  // rows
  Bytes to_pitch = 0, from_pitch = 0;
  bool blocking = false;  // the host waits for it, as in calls without a stream
};

// Which side is the device's follows from the addresses. kInvalidValue: device memory that is not there.
Code Copy(Device& device, Stream& stream, const CopyRequest& request);

struct FillRequest {
  const char* name = "";
  Address to = 0;
  std::uint32_t value = 0;
  Bytes element = 1;  // bytes of an element: 1, 2 or 4
  Bytes width = 0;    // elements of a row
  Bytes height = 1;
  Bytes pitch = 0;  // bytes
  bool blocking = false;
};

Code Fill(Device& device, Stream& stream, const FillRequest& request);

// Counts that the host reads from the device; the first read without content is said on standard error, unless it got
// what somebody assumes.
void CountHostRead(Statistics& statistics, Bytes bytes, bool has_content, bool is_assumed = false);

}  // namespace ebbtide::phantom
