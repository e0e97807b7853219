// Advise: which measures make a training fit a GPU, those that cost least time first.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "jobs/context.h"
#include "jobs/model.h"
#include "jobs/training.h"

namespace ebbtide::jobs {

struct AdviseRequest {
  ModelRequest model;  // of CUDA's kernels; several GPUs without a layout begin as DDP
  TrainingRequest training = {};
  std::string gpu = "a100-40gb";  // a name, or the path of a profile
  std::size_t most = 8;           // proposals to return
};

// What is done, with settings to copy, and what it comes to.
struct Proposal {
  std::vector<std::string> measures;
  std::vector<std::string> flags;  // of `ebbtide estimate`, which say the same; a plan has none
  bool fits = false;               // the safe figure is within the GPU's memory
  Bytes total = 0;
  Bytes safe = 0;
  Bytes saved = 0;               // of the total without measures
  double time_ratio = 1;         // of a step over as many samples, by modelled op times
  bool trains_adapters = false;  // and so learns something else
};

struct AdviseResult {
  std::string model, gpu;
  std::map<std::string, std::string> meta;  // of the step without measures, as TrainingGraph has it
  Bytes capacity = 0;
  Proposal plain;                   // without measures
  std::vector<Proposal> proposals;  // best first, those that train adapters in the model's stead last; where none fits,
                                    // those that come closest
  std::int64_t tried = 0;
  std::vector<std::string> notes;

  bool fits_already() const { return plain.fits; }
  bool found() const { return plain.fits || (!proposals.empty() && proposals.front().fits); }
};

Result<AdviseResult> Advise(const AdviseRequest& request, const JobContext& context);

}  // namespace ebbtide::jobs
