// How the parts of the engine tell each other that something has failed.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "run/op_runner.h"

namespace ebbtide::run {

inline tl::unexpected<Failure> Failed(Failure::Kind kind, std::string message) {
  return tl::unexpected<Failure>(Failure{kind, std::move(message)});
}

inline Outcome FromStatus(const Status& status) {
  if (status) return {};
  return Failed(Failure::Kind::kOther, status.error().message);
}

// An access to device memory. Once the update has begun, one that fails is tried again.
template <class Try>
Outcome Access(bool in_update, Try access) {
  Status done = access();
  if (!done && in_update) done = access();
  return FromStatus(done);
}

#define EBB_RUN(expression) \
  if (Outcome outcome = (expression); !outcome) return tl::unexpected<Failure>(std::move(outcome).error())

}  // namespace ebbtide::run
