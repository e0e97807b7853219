// Transforms: kernels on the plan's stream; and what is set on a plan.
#include "phantom/cufft/plan.h"

using namespace ebbtide::phantom;

namespace {

cufftResult Execute(const char* name, cufftHandle handle, const void* input, const void* output) {
  std::shared_ptr<FftPlan> plan = FindFft(handle);
  if (!plan || !plan->is_made) return CUFFT_INVALID_PLAN;
  if (!input || !output) return CUFFT_INVALID_VALUE;
  if (plan->work_bytes > 0 && !plan->own_area && !plan->given_area) return CUFFT_NO_WORKSPACE;
  return FromCode(Launch(name, plan->stream));
}

#if EBBTIDE_CUDA_GENERATION >= 13
constexpr int kVersion[] = {CUFFT_VER_MAJOR, CUFFT_VER_MINOR, CUFFT_VER_PATCH};
#else
constexpr int kVersion[] = {11, 2, 1};  // that of CUDA 12.4.1
#endif

}  // namespace

#define DIRECTED(name, In, Out)                                                               \
  cufftResult name(cufftHandle plan, In* input, Out* output, int direction) {                 \
    EBB_PHANTOM_CALL(FromCode, #name, plan, input, output, direction);                        \
    if (direction != CUFFT_FORWARD && direction != CUFFT_INVERSE) return CUFFT_INVALID_VALUE; \
    return Execute(#name, plan, input, output);                                               \
  }
#define UNDIRECTED(name, In, Out)                              \
  cufftResult name(cufftHandle plan, In* input, Out* output) { \
    EBB_PHANTOM_CALL(FromCode, #name, plan, input, output);    \
    return Execute(#name, plan, input, output);                \
  }
DIRECTED(cufftExecC2C, cufftComplex, cufftComplex)
DIRECTED(cufftExecZ2Z, cufftDoubleComplex, cufftDoubleComplex)
DIRECTED(cufftXtExec, void, void)
UNDIRECTED(cufftExecR2C, cufftReal, cufftComplex)
UNDIRECTED(cufftExecC2R, cufftComplex, cufftReal)
UNDIRECTED(cufftExecD2Z, cufftDoubleReal, cufftDoubleComplex)
UNDIRECTED(cufftExecZ2D, cufftDoubleComplex, cufftDoubleReal)

cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream) {
  EBB_PHANTOM_CALL(FromCode, "cufftSetStream", handle, stream);
  std::shared_ptr<FftPlan> plan = FindFft(handle);
  if (!plan) return CUFFT_INVALID_PLAN;
  if (!IsStream(stream)) return CUFFT_INVALID_VALUE;
  plan->stream = stream;
  return CUFFT_SUCCESS;
}

cufftResult cufftSetAutoAllocation(cufftHandle handle, int allocates) {
  EBB_PHANTOM_CALL(FromCode, "cufftSetAutoAllocation", handle, allocates);
  std::shared_ptr<FftPlan> plan = FindFft(handle);
  if (!plan) return CUFFT_INVALID_PLAN;
  plan->allocates = allocates != 0;
  return CUFFT_SUCCESS;
}

cufftResult cufftSetWorkArea(cufftHandle handle, void* area) {
  EBB_PHANTOM_CALL(FromCode, "cufftSetWorkArea", handle, area);
  std::shared_ptr<FftPlan> plan = FindFft(handle);
  if (!plan || !plan->is_made) return CUFFT_INVALID_PLAN;
  plan->given_area = area;
  void* own = plan->own_area;
  plan->own_area = nullptr;
  return own ? FromCode(FreeDevice(own)) : CUFFT_SUCCESS;
}

cufftResult cufftGetSize(cufftHandle handle, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftGetSize", handle);
  std::shared_ptr<FftPlan> plan = FindFft(handle);
  if (!plan) return CUFFT_INVALID_PLAN;
  if (!bytes) return CUFFT_INVALID_VALUE;
  *bytes = static_cast<std::size_t>(plan->work_bytes);
  return CUFFT_SUCCESS;
}

cufftResult cufftGetVersion(int* version) {
  EBB_PHANTOM_CALL(FromCode, "cufftGetVersion");
  if (!version) return CUFFT_INVALID_VALUE;
  *version = kVersion[0] * 1000 + kVersion[1] * 100 + kVersion[2];
  return CUFFT_SUCCESS;
}

cufftResult cufftGetProperty(libraryPropertyType type, int* value) {
  EBB_PHANTOM_CALL(FromCode, "cufftGetProperty", type);
  if (!value || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUFFT_INVALID_VALUE;
  *value = kVersion[type];
  return CUFFT_SUCCESS;
}
