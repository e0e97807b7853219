// The context of a GPU that this process and torch share.
#pragma once

#include <memory>

#include "device/cuda/driver.h"

namespace ebbtide {

// The GPU's primary context, which torch uses too. It is retained until the last owner of this object is gone.
class CudaPrimary {
 public:
  static Result<std::shared_ptr<CudaPrimary>> Make(int ordinal);
  ~CudaPrimary();
  CudaPrimary(const CudaPrimary&) = delete;
  CudaPrimary& operator=(const CudaPrimary&) = delete;

  const CudaDriver& driver() const { return *driver_; }

  // While such an object lives, the context is the current one of the thread that made it.
  class Current {
   public:
    explicit Current(const CudaPrimary& primary) : driver_(*primary.driver_) {
      pushed_ = driver_.CtxPushCurrent(primary.context_) == 0;
    }
    ~Current() {
      CudaContext before = nullptr;
      if (pushed_) driver_.CtxPopCurrent(&before);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const CudaDriver& driver_;
    bool pushed_ = false;
  };

 private:
  CudaPrimary(const CudaDriver* driver, int device, CudaContext context)
      : driver_(driver), device_(device), context_(context) {}

  const CudaDriver* const driver_;
  const int device_;
  const CudaContext context_;
};

}  // namespace ebbtide
