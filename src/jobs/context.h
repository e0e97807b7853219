// What a job needs of whoever asks for it, beside its Request: how to tell of its progress, when to stop, and who
// captures programs. The same for every job.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace ebbtide::jobs {

struct ModelRequest;  // model.h

// Turns a SCRIPT.py:function into graphs. That takes a Python with torch, which the command line starts; a caller that
// has its graph in hand needs none.
class Capturer {
 public:
  virtual ~Capturer() = default;
  virtual Result<TrainingGraph> Capture(const ModelRequest& request) = 0;
  // At three batches, of which two tell all others while the third shows whether they do.
  virtual Result<std::vector<TrainingGraph>> CaptureBatches(const ModelRequest& request) = 0;
};

// A moment of a long job. Work of one phase goes from 0 to 1; a phase of several parts that run side by side says
// which.
struct Progress {
  std::string phase;     // "searching", "lower bound"
  double share = 0;      // of the part that is done
  std::string note;      // what is known so far; may be empty
  std::size_t part = 0;  // of `parts`
  std::size_t parts = 1;
};

struct JobContext {
  std::function<void(const Progress&)> progress = {};  // may be called from several threads; empty: nobody looks
  // Asked often, from several threads; once it is true the job returns soon (within 0.2 s), with an error of
  // ErrorKind::kStopped. Empty: it runs to its end.
  std::function<bool()> stop = {};
  std::uint64_t seed = 0;        // of every random choice
  int threads = 1;               // results do not depend on it
  Capturer* capturer = nullptr;  // null: a SCRIPT.py:function is refused

  void Tell(const Progress& moment) const {
    if (progress) progress(moment);
  }
  bool Stopped() const { return stop && stop(); }
  Status CheckStop() const { return Stopped() ? Status(FailAs(ErrorKind::kStopped, "stopped")) : Status(); }
};

}  // namespace ebbtide::jobs
