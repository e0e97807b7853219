// What `ebbtide dryrun` tells of a program that ran on the phantom GPU, for people and as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "report/json.h"
#include "report/memory_timeline.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

// A request that torch's allocator could not serve.
struct DryrunOom {
  int pid = 0;
  std::optional<std::int64_t> step;  // from 1: the update that it would have led to
  Bytes requested = 0, allocated = 0, reserved = 0, free = 0, capacity = 0;
  std::vector<std::string> stack;  // "train.py:12 in forward", innermost last
};

// A place where a size or a branch came from a value that nobody knows, as the kernel that makes it was skipped.
struct DryrunAssumption {
  std::string line;     // "train.py:12"
  std::string what;     // "aten::nonzero of what aten::gt made at model.py:7"
  std::string led_to;   // "a size of [512, 1]"
  std::string assumed;  // "masks all true"
  std::int64_t count = 0;
};

// What PyTorch reserved and allocated at most on one device, by the number by which the process knows it.
struct DeviceFigures {
  int index = 0;
  Bytes peak_reserved = 0, peak_allocated = 0;
};

// What PyTorch told at the end of a process.
struct TorchFigures {
  std::string version;
  Bytes peak_reserved = 0, peak_allocated = 0;
  std::int64_t steps = 0;  // optimizer updates
  // Where the peaks of reserved and of allocated memory were reached: the step, from 1, and the line of the program.
  std::optional<std::int64_t> peak_step, allocated_step;
  std::string peak_line, allocated_line;
  std::int64_t ooms = 0, retries = 0;         // requests that failed; that went through after the cache was emptied
  bool stopped = false;                       // by --stop-after-steps
  std::vector<std::string> notes;             // what could not be found out, and why
  std::vector<DryrunOom> oom_list;            // the first few
  std::vector<DryrunAssumption> assumptions;  // in the order in which they were met
  std::optional<Nanos> step_time;             // what the GPU works for one step, by the models of src/device
  std::int64_t guessed_launches = 0;          // kernels that were timed by their number of threads alone
  std::optional<int> rank, world_size;        // of torch.distributed
  int device = 0;                             // whose memory the timeline tells
  std::vector<DeviceFigures> devices;         // those that were used
};

// What a process took of one GPU.
struct GpuFigures {
  int index = 0;                    // by which the process knows it
  int number = 0;                   // on the machine
  Bytes peak = 0, device_peak = 0;  // of this process, of all processes on it
  Bytes nccl = 0;                   // of that, the most that NCCL held
};

// One process that used the device.
struct DryrunProcess {
  int pid = 0, parent = 0;
  std::string command, end;  // "exit", "_exit", "signal"
  Bytes peak = 0, device_peak = 0, context = 0, pinned_peak = 0;
  std::int64_t driver_ooms = 0;
  std::int64_t host_reads = 0, empty_host_reads = 0;
  Bytes empty_host_read_bytes = 0;
  std::int64_t launches = 0, undeclared_launches = 0, faults_injected = 0;
  std::optional<std::int64_t> race_count;  // where races were looked for
  std::vector<Json> races;
  std::map<std::string, std::int64_t> not_modelled;
  std::optional<TorchFigures> torch;
  std::optional<MemoryTimeline> timeline;
  std::vector<GpuFigures> gpus;
  int run = 0;  // of several, where ranks were run one by one
};

// A rank of a distributed program, or a GPU of one that uses several without ranks.
struct DryrunRank {
  int rank = 0;
  int gpu = 0;  // its number on its machine
  const DryrunProcess* process = nullptr;
  Bytes peak_reserved = 0, peak_allocated = 0;
  Bytes total = 0;  // of the GPU, by all processes on it: contexts, loaded code, libraries
  Bytes nccl = 0;
};

struct Dryrun {
  std::vector<std::string> command;
  int exit_code = 0;
  std::string gpu, product;
  Bytes capacity = 0;
  int cuda = 0;                          // generation
  std::vector<DryrunProcess> processes;  // in the order of their ids
  int gpus = 1;                          // of the machine
  std::optional<int> world_size;         // where ranks were run one by one
  std::vector<int> lost;                 // processes that used the device and left no record: killed, or still running

  // The process whose figures stand for the whole: the one that reserved most. Null where none used the device.
  const DryrunProcess* main() const;
  // Whether the figures are those of the program: its torch was watched to the end, or the device was never used.
  // Where it is false there are none.
  bool observed() const;
  Bytes peak_reserved() const;
  Bytes peak_allocated() const;
  Bytes loaded_code() const;  // of kernels and library handles, by rule (device/runtime.h): the phantom has no code
  // The most that all processes together held at a time, contexts and loaded code included; no more than there is.
  Bytes total() const;
  bool oom() const;
  // Those with most of the GPU first. Empty for one GPU and no ranks.
  std::vector<DryrunRank> ranks() const;
  // What one GPU held at most.
  Bytes TotalOf(int run, int gpu) const;
};

// Reads what the processes left in `folder`: <pid>.json of the phantom, <pid>.torch.json and <pid>.timeline.json of the
// Python module. Files that cannot be read are left out, as their process may have been killed while it wrote.
std::vector<DryrunProcess> ReadProcesses(const std::string& folder, int run = 0);
// Those that wrote <pid>.begun when they took the device, and no <pid>.json at their end.
std::vector<int> LostProcesses(const std::string& folder);
// The innermost frame that is not torch's own; the innermost one where all are; empty where there is none.
std::string OwnLine(const std::vector<std::string>& stack);

// "step 2, train.py:31", or the part of it that is known.
std::string PlaceOf(std::optional<std::int64_t> step, const std::string& line);

// The main process's memory over time, with the figures of the run; it must have one.
MemoryTimeline DryrunTimeline(const Dryrun& run);
// The same for the process of one rank.
MemoryTimeline RankTimeline(const Dryrun& run, const DryrunRank& rank);

// The fields are in docs/command-line.md.
Json DryrunJson(const Dryrun& run);
std::string DryrunText(const Dryrun& run, const Terminal& terminal);

}  // namespace ebbtide::report
