// Faults on request: which calls fail, when, and with what.
//
//   EBBTIDE_PHANTOM_FAIL = RULE[,RULE...]      RULE = CALL[@NUMBER[+]|%PROBABILITY][=CODE]
//
//   cuMemMap@3            the third cuMemMap of the process fails
//   cudaMalloc@10+        the tenth and every later one
//   cudaMalloc%0.01       each one with that probability, by EBBTIDE_PHANTOM_SEED and the call's number alone
//   cudaMemcpy*@5=lost_device   '*' ends a name; from then on every call fails, as with a device that fell off the bus
//
// Without CODE: out_of_memory where the name speaks of memory, else unknown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "phantom/core/code.h"

namespace ebbtide::phantom {

struct FaultRule {
  std::string call;
  bool prefix = false;      // the name ended in '*'
  std::int64_t number = 0;  // 1: the first call; 0: not by number
  bool later_too = false;   // and every call after that
  double probability = -1;  // < 0: not by probability
  Code code = Code::kUnknown;

  bool Matches(std::string_view name) const;
  // Whether the `number`-th call (from 1) of a name that matches fails. Same seed, same answer.
  bool Fires(std::string_view name, std::int64_t call_number, std::uint64_t seed) const;
};

Result<std::vector<FaultRule>> ParseFaults(std::string_view text);

}  // namespace ebbtide::phantom
