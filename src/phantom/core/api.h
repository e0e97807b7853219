// What the libraries of the phantom are written against. A library's function looks like this:
//
//   cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, ...) {
//     EBB_PHANTOM_CALL(FromCode, "cublasSgemm", handle, m, n, k);    // count, log, faults (call.h)
//     std::shared_ptr<Library> library = Libraries().Find(handle);    // Handles<Library> (handles.h)
//     if (!library) return CUBLAS_STATUS_NOT_INITIALIZED;
//     return FromCode(Launch("cublasSgemm", library->stream));
//   }
//
// `FromCode` is the library's own, from Code to its status. What it does not model is left to the generated functions
// (make_stubs.py); a function that models only some of its arguments calls NotModelled("cublasX with Y") for the rest.
#pragma once

#include "base/units.h"
#include "device/profile.h"
#include "phantom/core/call.h"
#include "phantom/core/code.h"
#include "phantom/core/handles.h"
#include "phantom/core/op_clock.h"

namespace ebbtide::phantom {

// A kernel: takes its place in the order of `stream`, a CUstream or cudaStream_t as the program gave it. `duration` is
// virtual time; < 0: what TimeOfLaunch (op_clock.h) says. `name` must stay valid.
Code Launch(const char* name, void* stream, Nanos duration = -1);

// The same for what a library copies back to the host as a result: waits for the stream as such a call does.
Code WaitForStream(void* stream);
// Whether the handle is that of a stream.
bool IsStream(void* stream);

// Device memory that a library takes by itself, beside the framework's allocator (workspaces, handles). As cudaMalloc.
Code AllocateDevice(Bytes bytes, void** out);
Code FreeDevice(void* pointer);

// The GPU that the phantom is; where there are several, each of them.
const DeviceProfile& Profile();
// Whether the process has a GPU of that number; the number of a GPU on the machine.
bool IsGpu(int index);
int NumberOf(int index);

// What a library computes and gives to the host by itself: waits for the stream, writes zeros, and counts a read of
// `bytes` by the host as a copy from device memory without content would be.
Code GiveZeros(void* stream, void* host, Bytes bytes);

// Defined by each library whose api.txt marks functions with `launch`: a kernel on the stream that belongs to `handle`,
// the first argument of the function. The answer is the library's own status.
int LaunchOfHandle(CallSite& site, const char* name, void* handle);

// One row of a library's table of all its functions, made from api.txt; for look-ups by name.
struct ApiFunction {
  const char* name;
  void* address;
  int since;  // CUDA version, where api.txt says so
  bool is_modelled;
};
extern const ApiFunction kApiFunctions[];
extern const int kApiFunctionCount;

}  // namespace ebbtide::phantom
