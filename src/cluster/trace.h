// Traces of jobs as files tell them: our own form, that of CARMA's workloads, and that of Alibaba's openb.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/cluster.h"

namespace ebbtide::cluster {

inline constexpr Bytes kTraceFileLimit = 256 * kMiB;

// A row. What a file does not say is empty, or 0.
struct TraceJob {
  std::int64_t line = 0;
  std::string name;
  double arrival = 0;  // seconds
  int gpus = 1;
  // ---- Of jobs that are trainings
  std::string model;  // what `ebbtide estimate` takes as a MODEL; empty: `memory` says what it takes
  std::int64_t batch = 0;
  std::string optimizer;
  std::int64_t image_size = 0, seq_len = 0, classes = 0;
  std::optional<double> iterations;
  std::optional<double> seconds;  // alone, as measured; else by the model
  std::optional<Bytes> memory;    // as measured; else as estimated
  Bytes declared = 0;
  // ---- Of jobs that ask for shares of GPUs
  std::int64_t gpu_milli = 0, cpu_milli = 0, memory_mib = 0;
  bool never_ran = false;  // nobody knows how long it would have taken
};

struct Trace {
  std::string form;  // "ebbtide", "carma", "openb"
  std::string name;  // of the trace within the file; empty: it has but one
  std::vector<TraceJob> jobs;
  std::vector<std::string> notes;  // what was assumed
};

// `name`: of the trace, in a file that has several; empty: the first.
Result<Trace> ParseTrace(std::string_view text, const std::string& path, const std::string& name);
Result<Trace> ReadTrace(const std::string& path, const std::string& name);

// Nodes of openb's form: sn,cpu_milli,memory_mib,gpu,model. Their GPUs have no memory that is known.
Result<Hardware> ReadNodes(const std::string& path);

}  // namespace ebbtide::cluster
