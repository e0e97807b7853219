// How the parts of the engine tell each other that something has failed.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "base/result.h"
#include "run/engine/op_runner.h"

namespace ebbtide::run {

inline tl::unexpected<Failure> Failed(Failure::Kind kind, std::string message) {
  return tl::unexpected<Failure>(Failure{kind, std::move(message)});
}

inline RunStatus FromStatus(const Status& status) {
  if (status) return {};
  return Failed(Failure::Kind::kOther, status.error().message);
}

// An access to device memory. Once the update has begun, one that fails is tried again.
template <class Try>
RunStatus Access(bool in_update, Try access) {
  Status done = access();
  if (!done && in_update) done = access();
  return FromStatus(done);
}

// A part of a step: that the host has no memory left is a failure of it.
template <class Part>
RunStatus WithHostMemory(Part part) {
  try {
    return part();
  } catch (const std::bad_alloc&) {
    return Failed(Failure::Kind::kOutOfMemory, "the host has no memory left");
  }
}

#define EBB_RUN(expression) \
  if (RunStatus status = (expression); !status) return tl::unexpected<Failure>(std::move(status).error())

}  // namespace ebbtide::run
