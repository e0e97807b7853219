// Progress of long work, as one line of a terminal that is overwritten, reaches 100 % when all is done, and is erased.
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

  // What a job says of its progress. Jobs do not say how many phases are to come, so each gets half of the bar that is
  // left: it grows from the first phase to the last and never falls.
  void Show(const jobs::Progress& moment);

  // Begins work of several parts that take about as long as each other, with none of them done.
  void Begin(std::string what, std::size_t parts = 1);
  // `share` of the part is done; `note`: what is known so far. A share that falls is not shown.
  void Show(double share, const std::string& note, std::size_t part = 0);
  // Takes the line away, full where the work was not interrupted; to be called before anything else is written to the
  // terminal.
  void Erase();

 private:
  using Clock = std::chrono::steady_clock;
  void Start(const std::string& what, std::size_t parts);
  void Advance(double share, const std::string& note, std::size_t part);
  double Overall() const;
  void Draw(double share, const std::string& note);

  const report::Terminal terminal_;
  const bool visible_;
  std::mutex mutex_;
  std::string what_;
  std::vector<double> shares_;  // of the parts of the phase at hand
  double before_ = 0;           // of the bar, by the phases before; each had half of what was left
  Clock::time_point drawn_;
  int columns_ = 0;  // of the line that stands there
};

}  // namespace ebbtide::cli
