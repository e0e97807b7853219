// Linking of kernels at run time. Code is not read, so what comes out is a shell that loads as a module. Tensor maps
// are descriptions that only kernels read.
#include <cstring>

#include "phantom/core/handles.h"
#include "phantom/cuda/driver.h"

using namespace ebbtide::phantom;

namespace {

struct Link {
  char image[64] = "\177ELF";
};

Handles<Link>& Links() {
  static auto* links = new Handles<Link>;
  return *links;
}

CUresult Encode(CUtensorMap* out, cuuint32_t rank) {
  if (!out || rank < 1 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
  std::memset(out, 0, sizeof(*out));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuLinkCreate(unsigned count, CUjit_option*, void**, CUlinkState* out) {
  DRIVER_CONTEXT_CALL("cuLinkCreate", count);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUlinkState>(Links().Create().get());
  return CUDA_SUCCESS;
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t bytes, const char* name, unsigned,
                       CUjit_option*, void**) {
  DRIVER_CONTEXT_CALL("cuLinkAddData", state, type, bytes, name);
  if (!Links().Find(state)) return CUDA_ERROR_INVALID_HANDLE;
  return data && bytes > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLinkComplete(CUlinkState state, void** image, size_t* bytes) {
  DRIVER_CONTEXT_CALL("cuLinkComplete", state);
  std::shared_ptr<Link> link = Links().Find(state);
  if (!link) return CUDA_ERROR_INVALID_HANDLE;
  if (!image) return CUDA_ERROR_INVALID_VALUE;
  *image = link->image;
  if (bytes) *bytes = sizeof(link->image);
  return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state) {
  DRIVER_CONTEXT_CALL("cuLinkDestroy", state);
  return Links().Remove(state) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                                CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  DRIVER_CALL("cuTensorMapEncodeTiled", type, rank, address);
  return Encode(out, rank);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  DRIVER_CALL("cuTensorMapReplaceAddress", address);
  return map ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
