// What all processes of a run tell each other about who waits for whom, so that a wait that can never end is found.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace ebbtide::phantom {

class Board {
 public:
  static constexpr int kProcesses = 256;
  static constexpr int kMissing = 64;
  static constexpr std::size_t kText = 512;

  // That of the run that this process is part of.
  static Board& OfThisRun();

  // Files in memory of this run begin with this.
  static std::string Prefix();

  // The rank by which people know this process; -1: none was told.
  void SetRank(int rank);
  // Something was posted: this process goes on.
  void Progress();
  // The calling thread waits for these processes in `what`; none any more.
  void Waits(const std::vector<pid_t>& missing, const std::string& what);
  void WaitsNoMore();

  // Processes that wait for each other, this one among them.
  struct Circle {
    std::vector<pid_t> pids;
    std::vector<std::string> waits;  // what each waits in
    std::uint64_t seen = 0;          // a fingerprint of them and of how far they have come
  };
  // Empty where some can go on.
  Circle WaitingInCircle() const;
  // The processes on the board that live, but for this one.
  std::vector<pid_t> Others() const;
  bool IsWaiting(pid_t pid) const;

  // The first fault of the run is told to people: true for one caller only.
  bool FirstFault();

 private:
  struct Entry;
  struct Table;

  explicit Board(const std::string& name);
  Entry* Own();

  Table* table_ = nullptr;
  Entry* own_ = nullptr;
};

// Whether the process is there and no zombie.
bool IsAlive(pid_t pid);
// What its main thread, and all its threads, have used of the processor, in ticks; -1: it is not there.
std::int64_t TicksOfMainThread(pid_t pid);
std::int64_t TicksOfProcess(pid_t pid);

}  // namespace ebbtide::phantom
