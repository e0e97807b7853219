// How this process's phantom is set up: environment variables, read once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "phantom/core/faults.h"

namespace ebbtide::phantom {

struct Config {
  std::string profile = "a100-40gb";  // _PROFILE: a built-in name or the path of a profile file
  std::string output;                 // _OUTPUT: folder for <pid>.json, written at the end of the process
  std::string log;                    // _LOG: file that every call is appended to
  std::string shared;                 // _SHARED: processes that give the same name share one device's memory
  std::vector<FaultRule> faults;      // _FAIL, see faults.h
  Nanos jitter = 0;                   // _JITTER_US: operations start late by a random time up to this
  Nanos kernel_time = 0;              // _KERNEL_US: what a kernel takes on the virtual clock, where nobody says more
  bool model_times = false;           // _TIMES=model: by the models of src/device instead (op_clock.h)
  std::uint64_t seed = 0;             // _SEED: of faults and jitter
  Bytes backed = 0;                   // _BACKED: device memory that really holds its content, at most
  bool check_races = false;           // _CHECK=race
  int gpus = 1;                       // _GPUS: of the machine, all alike
  std::vector<int> visible = {0};     // of them, in the process's order, by CUDA_VISIBLE_DEVICES; never empty
  bool hidden = false;                // CUDA_VISIBLE_DEVICES hides all: empty, or nothing that could name one
  bool alone = false;                 // _ALONE=1: ranks that NCCL is told of do not run; they do as this one does
  bool real_time = false;             // _REAL_TIME=1: the queues sleep as long as the virtual clock says

  // Work is handed to the streams' threads even where it could be done at once.
  bool always_queued() const { return jitter > 0 || real_time; }
};

// A variable that cannot be understood ends the process: one line, exit code 2.
const Config& TheConfig();

// The same from given variables, for tests: `get` gives a variable's value or null.
Result<Config> ReadConfig(const char* (*get)(const char* name));

}  // namespace ebbtide::phantom
