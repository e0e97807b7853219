// Inside libcudnn: the public headers with their functions visible, the handle, and the usual first lines of a
// function.
#pragma once

#pragma GCC visibility push(default)
#include <cudnn.h>
#pragma GCC visibility pop

#include <memory>
#include <string>

#include "phantom/core/api.h"

namespace ebbtide::phantom {

struct Library {
  void* stream = nullptr;  // cudaStream_t
};

Handles<Library>& Libraries();

cudnnStatus_t FromCode(Code code);

// Says on standard error, once, and in cudnnGetLastErrorString, that this part of a call is not modelled.
cudnnStatus_t Refuse(const std::string& what);

Bytes ItemSize(cudnnDataType_t type);  // 0: not a type of whole bytes

// A kernel on the library's stream, of that virtual time where it is known (not < 0).
inline cudnnStatus_t Run(const char* name, const Library& library, Nanos duration = -1) {
  return FromCode(Launch(name, library.stream, duration));
}

}  // namespace ebbtide::phantom

#define CUDNN_CALL(name, ...) EBB_PHANTOM_CALL(::ebbtide::phantom::FromCode, name __VA_OPT__(, ) __VA_ARGS__)

// Declares `library`, the one behind `handle`, or ends the call.
#define CUDNN_HANDLE_CALL(name, handle, ...)                                                           \
  CUDNN_CALL(name, handle __VA_OPT__(, ) __VA_ARGS__);                                                 \
  std::shared_ptr<::ebbtide::phantom::Library> library = ::ebbtide::phantom::Libraries().Find(handle); \
  if (!library) return CUDNN_STATUS_NOT_INITIALIZED
