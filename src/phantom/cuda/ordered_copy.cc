// Copies and fills, with and without a stream.
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

CUresult Copy1D(const char* name, Address to, Address from, std::size_t bytes, CUstream handle, bool blocking) {
  if (bytes > 0 && (to == 0 || from == 0)) return CUDA_ERROR_INVALID_VALUE;
  DRIVER_STREAM(stream, handle);
  return Answer(
      Copy(TheDevice(), *stream, {.name = name, .to = to, .from = from, .width = Size(bytes), .blocking = blocking}));
}

// The begin of one side of a two-dimensional copy.
bool BeginOf(CUmemorytype type, const void* host, CUdeviceptr device, std::size_t x, std::size_t y, std::size_t pitch,
             Address& out) {
  if (type == CU_MEMORYTYPE_ARRAY) return false;
  out = (type == CU_MEMORYTYPE_HOST ? AddressOf(host) : device) + y * pitch + x;
  return true;
}

CUresult Copy2D(const char* name, const CUDA_MEMCPY2D* p, CUstream handle, bool blocking) {
  if (!p || p->srcPitch > 0x7fffffff || p->dstPitch > 0x7fffffff) return CUDA_ERROR_INVALID_VALUE;
  Address to = 0, from = 0;
  std::size_t to_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes;
  std::size_t from_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes;
  if (!BeginOf(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->dstY, to_pitch, to) ||
      !BeginOf(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes, p->srcY, from_pitch, from)) {
    NotModelled("cuMemcpy2D with arrays");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (p->WidthInBytes > to_pitch || p->WidthInBytes > from_pitch) return CUDA_ERROR_INVALID_VALUE;
  DRIVER_STREAM(stream, handle);
  return Answer(Copy(TheDevice(), *stream,
                     {.name = name,
                      .to = to,
                      .from = from,
                      .width = Size(p->WidthInBytes),
                      .height = Size(p->Height),
                      .to_pitch = Size(to_pitch),
                      .from_pitch = Size(from_pitch),
                      .blocking = blocking}));
}

CUresult FillRows(const char* name, CUdeviceptr to, std::size_t pitch, std::uint32_t value, Bytes element,
                  std::size_t width, std::size_t height, CUstream handle, bool blocking) {
  DRIVER_STREAM(stream, handle);
  return Answer(Fill(TheDevice(), *stream,
                     {.name = name,
                      .to = to,
                      .value = value,
                      .element = element,
                      .width = Size(width),
                      .height = Size(height),
                      .pitch = Size(pitch),
                      .blocking = blocking}));
}

}  // namespace

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  DRIVER_CONTEXT_CALL("cuMemcpy", to, from, bytes);
  return Copy1D("cuMemcpy", to, from, bytes, nullptr, true);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  DRIVER_CONTEXT_CALL("cuMemcpyHtoD", to, from, bytes);
  return Copy1D("cuMemcpyHtoD", to, AddressOf(from), bytes, nullptr, true);
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  DRIVER_CONTEXT_CALL("cuMemcpyDtoH", to, from, bytes);
  return Copy1D("cuMemcpyDtoH", AddressOf(to), from, bytes, nullptr, true);
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  DRIVER_CONTEXT_CALL("cuMemcpyDtoD", to, from, bytes);
  return Copy1D("cuMemcpyDtoD", to, from, bytes, nullptr, true);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  DRIVER_CONTEXT_CALL("cuMemcpyAsync", to, from, bytes, stream);
  return Copy1D("cuMemcpyAsync", to, from, bytes, stream, false);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  DRIVER_CONTEXT_CALL("cuMemcpyHtoDAsync", to, from, bytes, stream);
  return Copy1D("cuMemcpyHtoDAsync", to, AddressOf(from), bytes, stream, false);
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  DRIVER_CONTEXT_CALL("cuMemcpyDtoHAsync", to, from, bytes, stream);
  return Copy1D("cuMemcpyDtoHAsync", AddressOf(to), from, bytes, stream, false);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  DRIVER_CONTEXT_CALL("cuMemcpyDtoDAsync", to, from, bytes, stream);
  return Copy1D("cuMemcpyDtoDAsync", to, from, bytes, stream, false);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D* parameters) {
  DRIVER_CONTEXT_CALL("cuMemcpy2D");
  return Copy2D("cuMemcpy2D", parameters, nullptr, true);
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* parameters) {
  DRIVER_CONTEXT_CALL("cuMemcpy2DUnaligned");
  return Copy2D("cuMemcpy2DUnaligned", parameters, nullptr, true);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* parameters, CUstream stream) {
  DRIVER_CONTEXT_CALL("cuMemcpy2DAsync", stream);
  return Copy2D("cuMemcpy2DAsync", parameters, stream, false);
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  DRIVER_CONTEXT_CALL("cuMemsetD8", to, value, count);
  return FillRows("cuMemsetD8", to, 0, value, 1, count, 1, nullptr, true);
}

CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  DRIVER_CONTEXT_CALL("cuMemsetD16", to, value, count);
  return FillRows("cuMemsetD16", to, 0, value, 2, count, 1, nullptr, true);
}

CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
  DRIVER_CONTEXT_CALL("cuMemsetD32", to, value, count);
  return FillRows("cuMemsetD32", to, 0, value, 4, count, 1, nullptr, true);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  DRIVER_CONTEXT_CALL("cuMemsetD8Async", to, value, count, stream);
  return FillRows("cuMemsetD8Async", to, 0, value, 1, count, 1, stream, false);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  DRIVER_CONTEXT_CALL("cuMemsetD16Async", to, value, count, stream);
  return FillRows("cuMemsetD16Async", to, 0, value, 2, count, 1, stream, false);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  DRIVER_CONTEXT_CALL("cuMemsetD32Async", to, value, count, stream);
  return FillRows("cuMemsetD32Async", to, 0, value, 4, count, 1, stream, false);
}

CUresult cuMemsetD2D8(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height) {
  DRIVER_CONTEXT_CALL("cuMemsetD2D8", to, pitch, value, width, height);
  return FillRows("cuMemsetD2D8", to, pitch, value, 1, width, height, nullptr, true);
}

CUresult cuMemsetD2D16(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height) {
  DRIVER_CONTEXT_CALL("cuMemsetD2D16", to, pitch, value, width, height);
  return FillRows("cuMemsetD2D16", to, pitch, value, 2, width, height, nullptr, true);
}

CUresult cuMemsetD2D32(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height) {
  DRIVER_CONTEXT_CALL("cuMemsetD2D32", to, pitch, value, width, height);
  return FillRows("cuMemsetD2D32", to, pitch, value, 4, width, height, nullptr, true);
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream) {
  DRIVER_CONTEXT_CALL("cuMemsetD2D8Async", to, pitch, value, width, height, stream);
  return FillRows("cuMemsetD2D8Async", to, pitch, value, 1, width, height, stream, false);
}

CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                            CUstream stream) {
  DRIVER_CONTEXT_CALL("cuMemsetD2D16Async", to, pitch, value, width, height, stream);
  return FillRows("cuMemsetD2D16Async", to, pitch, value, 2, width, height, stream, false);
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height,
                            CUstream stream) {
  DRIVER_CONTEXT_CALL("cuMemsetD2D32Async", to, pitch, value, width, height, stream);
  return FillRows("cuMemsetD2D32Async", to, pitch, value, 4, width, height, stream, false);
}
