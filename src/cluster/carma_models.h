// What the words of CARMA's workloads mean as MODELs of ours.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/units.h"

namespace ebbtide::cluster {

struct CarmaModel {
  std::string_view words;  // of the column `model`
  std::string_view input;  // that the column `input` begins with
  const char* model;       // empty: `memory` says what it takes
  std::int64_t samples;    // of an epoch; 0: not known, and with them how busy it keeps the GPU
  std::int64_t image_size = 0, seq_len = 0, classes = 0;
  std::int64_t batch = 0;      // where the trace has none
  const char* optimizer = "";  // in place of the trace's
  Bytes memory = 0;            // as CARMA's authors measured it
  const char* note = "";       // what was assumed
};

// Null where there is none.
const CarmaModel* FindCarmaModel(std::string_view words, std::string_view input);

}  // namespace ebbtide::cluster
