// Progress of long work, as one line of a terminal that is overwritten and in the end erased.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "cli/common_flags.h"
#include "report/terminal.h"

namespace ebbtide::cli {

// Shows nothing where standard error is no terminal, or with -q. Its functions may be called from several threads.
class Progress {
 public:
  explicit Progress(const OutputFlags& flags);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Work of several parts that take about as long as each other: none of it is done.
  void Begin(std::string what, std::size_t parts = 1);
  // `share` of the part is done; `note`: what is known so far. A share that falls is not shown.
  void Show(double share, const std::string& note, std::size_t part = 0);
  // Before anything else is written.
  void Erase();

 private:
  using Clock = std::chrono::steady_clock;
  void Draw(const std::string& note);

  const report::Terminal terminal_;
  const bool visible_;
  std::mutex mutex_;
  std::string what_;
  std::vector<double> shares_;
  Clock::time_point drawn_;
  int columns_ = 0;  // of the line that stands there
};

}  // namespace ebbtide::cli
