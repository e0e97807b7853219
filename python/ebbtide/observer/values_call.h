// A call of an operator while it runs, as values.cc follows it; between the files that follow values, and no other.
#pragma once

#include <ATen/record_function.h>

#include "values.h"

namespace ebbtide_observer {

constexpr int64_t kMostAssumed = 4 * 1024 * 1024;  // bytes of a result that is filled by assumption

struct Call : at::ObserverContext {
  const Rule* rule = nullptr;
  bool followed = false;  // its results are computed or assumed; else they are unknown
  bool eligible = false;  // all that it reads is known
  uint32_t origin = 0;
  std::optional<c10::ScalarType> type;  // of its first tensor on the device
  std::vector<c10::IValue> arguments;
  std::vector<at::Tensor> mutated;  // on the device, in the order of the arguments
  std::optional<Computed> computed;
  std::optional<int64_t> size;  // what the kernel would read back: how many there are
  bool size_is_known = false;   // though not all that it reads is
  int64_t launches_seen = 0;
  std::vector<at::Tensor> made_inside;  // of a transparent operator with kernels of its own
};

extern thread_local std::vector<Call*> calls;  // that this thread is in, outermost first

// The user's line that this thread is at, or whose backward it runs.
std::string Line();

// ---- Operators whose result has a size that depends on contents (values_sizes.cc)

// Before the call: how many there will be, known or assumed. The kernel reads it back by OnRead.
void PrepareSize(Call& call);
// Behind it: writes down what an assumed size led to.
void NoteSize(const Call& call, const std::vector<at::Tensor>& results);
// What a size that was assumed holds: as if all of it had been asked of a mask that is true, of numbers that differ.
void AssumeSized(Call& call, const std::vector<at::Tensor>& results);

// ---- What the host reads (values_read.cc)

// The phantom calls this for each copy to the host (ValuesOfPhantom::OnRead): 0: nothing is changed; 1: `out` holds an
// assumption, or what rests on one; 2: `out` holds what is known.
int OnRead(const void* address, size_t bytes, int known, uint32_t origin, void* out);

}  // namespace ebbtide_observer
