// Retains and releases the primary context.
#include "device/cuda/primary.h"

namespace ebbtide {

Result<std::shared_ptr<CudaPrimary>> CudaPrimary::Make(int ordinal) {
  EBB_ASSIGN_OR_RETURN(const CudaDriver* const driver, LoadCudaDriver());
  if (const int code = driver->Init(0); code != 0) return Fail("device cuda: cuInit: {}", driver->NameOf(code));
  int device = 0;
  if (const int code = driver->DeviceGet(&device, ordinal); code != 0)
    return Fail("device cuda:{}: {}", ordinal, driver->NameOf(code));
  CudaContext context = nullptr;
  if (const int code = driver->DevicePrimaryCtxRetain(&context, device); code != 0)
    return Fail("device cuda:{}: cannot be used: {}", ordinal, driver->NameOf(code));
  return std::shared_ptr<CudaPrimary>(new CudaPrimary(driver, device, context));
}

CudaPrimary::~CudaPrimary() { driver_->DevicePrimaryCtxRelease(device_); }

}  // namespace ebbtide
