// Copies to and from variables on the device.
#include "phantom/cudart/runtime.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

cudaError_t CopySymbol(const char* name, const void* symbol, const void* other, std::size_t bytes, std::size_t offset,
                       bool to_symbol, cudaStream_t handle, bool blocking) {
  const Variable* variable = TheKernels().FindVariable(symbol, TheDevice());
  if (!variable) return Return(static_cast<Code>(cudaErrorInvalidSymbol));
  if (offset > static_cast<std::size_t>(variable->size) || bytes > static_cast<std::size_t>(variable->size) - offset)
    return Return(Code::kInvalidValue);
  RUNTIME_STREAM(stream, handle);
  Address inside = variable->address + offset;
  return Return(Copy(TheDevice(), *stream,
                     {.name = name,
                      .to = to_symbol ? inside : AddressOf(other),
                      .from = to_symbol ? AddressOf(other) : inside,
                      .width = static_cast<Bytes>(bytes),
                      .blocking = blocking}));
}

}  // namespace

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  RUNTIME_DEVICE_CALL("cudaMemcpyToSymbol", symbol, from, bytes, offset, kind);
  return CopySymbol("cudaMemcpyToSymbol", symbol, from, bytes, offset, true, nullptr, true);
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  RUNTIME_DEVICE_CALL("cudaMemcpyFromSymbol", to, symbol, bytes, offset, kind);
  return CopySymbol("cudaMemcpyFromSymbol", symbol, to, bytes, offset, false, nullptr, true);
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaMemcpyToSymbolAsync", symbol, from, bytes, offset, kind, stream);
  return CopySymbol("cudaMemcpyToSymbolAsync", symbol, from, bytes, offset, true, stream, false);
}

cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  RUNTIME_DEVICE_CALL("cudaMemcpyFromSymbolAsync", to, symbol, bytes, offset, kind, stream);
  return CopySymbol("cudaMemcpyFromSymbolAsync", symbol, to, bytes, offset, false, stream, false);
}
