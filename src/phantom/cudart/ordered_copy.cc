// Copies and fills, with and without a stream.
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

constexpr std::size_t kMost = static_cast<std::size_t>(ebbtide::kTooLarge);

cudaError_t Copy1D(const char* name, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                   cudaStream_t handle, bool blocking) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
    return Return(static_cast<Code>(cudaErrorInvalidMemcpyDirection));
  if (bytes > kMost || (bytes > 0 && (!to || !from))) return Return(Code::kInvalidValue);
  RUNTIME_STREAM(stream, handle);
  return Return(Copy(TheDevice(), *stream,
                     {.name = name,
                      .to = AddressOf(to),
                      .from = AddressOf(from),
                      .width = static_cast<Bytes>(bytes),
                      .blocking = blocking}));
}

cudaError_t Copy2D(const char* name, void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                   std::size_t width, std::size_t height, cudaStream_t handle, bool blocking) {
  if (width > to_pitch || width > from_pitch || to_pitch > kMost || from_pitch > kMost || height > kMost)
    return Return(static_cast<Code>(cudaErrorInvalidPitchValue));
  RUNTIME_STREAM(stream, handle);
  return Return(Copy(TheDevice(), *stream,
                     {.name = name,
                      .to = AddressOf(to),
                      .from = AddressOf(from),
                      .width = static_cast<Bytes>(width),
                      .height = static_cast<Bytes>(height),
                      .to_pitch = static_cast<Bytes>(to_pitch),
                      .from_pitch = static_cast<Bytes>(from_pitch),
                      .blocking = blocking}));
}

cudaError_t Fill2D(const char* name, void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                   cudaStream_t handle, bool blocking) {
  if (pitch > kMost || width > kMost || height > kMost) return Return(Code::kInvalidValue);
  RUNTIME_STREAM(stream, handle);
  return Return(Fill(TheDevice(), *stream,
                     {.name = name,
                      .to = AddressOf(to),
                      .value = static_cast<std::uint32_t>(value) & 0xff,
                      .width = static_cast<Bytes>(width),
                      .height = static_cast<Bytes>(height),
                      .pitch = static_cast<Bytes>(pitch),
                      .blocking = blocking}));
}

// Slices one after another; only pitched memory, no arrays.
cudaError_t Copy3D(const char* name, const cudaMemcpy3DParms* p, cudaStream_t handle, bool blocking) {
  if (!p) return Return(Code::kInvalidValue);
  if (p->srcArray || p->dstArray) {
    NotModelled("cudaMemcpy3D with arrays");
    return Return(Code::kNotSupported);
  }
  for (std::size_t z = 0; z < p->extent.depth; ++z) {
    auto slice = [&](const cudaPitchedPtr& side, const cudaPos& at) {
      return static_cast<char*>(side.ptr) + ((at.z + z) * side.ysize + at.y) * side.pitch + at.x;
    };
    cudaError_t error = Copy2D(name, slice(p->dstPtr, p->dstPos), p->dstPtr.pitch, slice(p->srcPtr, p->srcPos),
                               p->srcPtr.pitch, p->extent.width, p->extent.height, handle, blocking);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t Fill3D(const char* name, const cudaPitchedPtr& to, int value, cudaExtent extent, cudaStream_t handle,
                   bool blocking) {
  for (std::size_t z = 0; z < extent.depth; ++z) {
    cudaError_t error = Fill2D(name, static_cast<char*>(to.ptr) + z * to.ysize * to.pitch, to.pitch, value,
                               extent.width, extent.height, handle, blocking);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  RUNTIME_DEVICE_CALL("cudaMemcpy", to, from, bytes, kind);
  return Copy1D("cudaMemcpy", to, from, bytes, kind, nullptr, true);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaMemcpyAsync", to, from, bytes, kind, stream);
  return Copy1D("cudaMemcpyAsync", to, from, bytes, kind, stream, false);
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  RUNTIME_DEVICE_CALL("cudaMemcpy2D", to, to_pitch, from, from_pitch, width, height, kind);
  return Copy2D("cudaMemcpy2D", to, to_pitch, from, from_pitch, width, height, nullptr, true);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaMemcpy2DAsync", to, to_pitch, from, from_pitch, width, height, kind, stream);
  return Copy2D("cudaMemcpy2DAsync", to, to_pitch, from, from_pitch, width, height, stream, false);
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters) {
  RUNTIME_DEVICE_CALL("cudaMemcpy3D");
  return Copy3D("cudaMemcpy3D", parameters, nullptr, true);
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaMemcpy3DAsync", stream);
  return Copy3D("cudaMemcpy3DAsync", parameters, stream, false);
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  RUNTIME_DEVICE_CALL("cudaMemset", to, value, bytes);
  return Fill2D("cudaMemset", to, 0, value, bytes, 1, nullptr, true);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaMemsetAsync", to, value, bytes, stream);
  return Fill2D("cudaMemsetAsync", to, 0, value, bytes, 1, stream, false);
}

cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  RUNTIME_DEVICE_CALL("cudaMemset2D", to, pitch, value, width, height);
  return Fill2D("cudaMemset2D", to, pitch, value, width, height, nullptr, true);
}

cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaMemset2DAsync", to, pitch, value, width, height, stream);
  return Fill2D("cudaMemset2DAsync", to, pitch, value, width, height, stream, false);
}

cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  RUNTIME_DEVICE_CALL("cudaMemset3D", to.ptr, value);
  return Fill3D("cudaMemset3D", to, value, extent, nullptr, true);
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaMemset3DAsync", to.ptr, value, stream);
  return Fill3D("cudaMemset3DAsync", to, value, extent, stream, false);
}
