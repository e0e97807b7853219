// What the tide allocator (tide/c_interface.h), which is compiled without torch, needs of it: the error that PyTorch
// users know, and the functions of torch's pluggable allocator that Python does not reach.
#include <c10/util/Exception.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#define EBB_EXPORT extern "C" __attribute__((visibility("default")))

EBB_EXPORT void ebbtide_throw_out_of_memory(const char* message) { TORCH_CHECK_WITH(OutOfMemoryError, false, message); }

// Torch's present allocator, a pluggable one, gets these. -1: it is another.
EBB_EXPORT int ebbtide_complete_allocator(void (*record_stream)(void*, void*), void (*empty_cache)(),
                                          void (*memory_fraction)(double, int)) {
  namespace pluggable = torch::cuda::CUDAPluggableAllocator;
  const auto current = std::dynamic_pointer_cast<pluggable::CUDAPluggableAllocator>(pluggable::getCurrentAllocator());
  if (!current) return -1;
  current->set_record_stream_fn([=](void* address, cudaStream_t stream) { record_stream(address, stream); });
  current->set_reset_fn(empty_cache);
  current->set_memory_fraction_fn(memory_fraction);
  return 0;
}
