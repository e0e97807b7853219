// Progress of long work, as one line of a terminal that is overwritten and in the end erased.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "cli/common_flags.h"
#include "jobs/context.h"
#include "report/text/terminal.h"

namespace ebbtide::cli {

// Shows nothing where standard error is no terminal, or with -q. Its functions may be called from several threads.
class ProgressLine {
 public:
  explicit ProgressLine(const OutputFlags& flags);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // What a job says of its progress. A phase that is not the one before begins a new line.
  void Show(const jobs::Progress& moment);

  // Begins work of several parts that take about as long as each other, with none of them done.
  void Begin(std::string what, std::size_t parts = 1);
  // `share` of the part is done; `note`: what is known so far. A share that falls is not shown.
  void Show(double share, const std::string& note, std::size_t part = 0);
  // Takes the line away; to be called before anything else is written to the terminal.
  void Erase();

 private:
  using Clock = std::chrono::steady_clock;
  void Start(const std::string& what, std::size_t parts);
  void Advance(double share, const std::string& note, std::size_t part);
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
