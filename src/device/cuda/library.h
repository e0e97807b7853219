// CUDA's driver library, loaded once at run time and kept: the one place that opens it. Functions are found by name, so
// that one program serves machines with and without a GPU, and the phantom GPU stands in for the driver in tests.
#pragma once

#include <string>

#include "base/result.h"

namespace ebbtide {

// Collects functions of the driver by Find, and says with AllFound whether one was missing.
class CudaLibrary {
 public:
  // An error where the machine has no driver.
  static Result<CudaLibrary> Open();

  template <class Function>
  void Find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(Symbol(name));
    if (!function && missing_.empty()) missing_ = name;
  }
  // An error names the first function that Find did not find.
  Status AllFound() const;

 private:
  explicit CudaLibrary(void* library) : library_(library) {}
  void* Symbol(const char* name) const;

  void* library_;
  std::string missing_;
};

// A function that the process itself has, such as those of the phantom GPU; null where it has none.
void* SymbolInProcess(const char* name);
template <class Function>
Function FindInProcess(const char* name) {
  return reinterpret_cast<Function>(SymbolInProcess(name));
}

}  // namespace ebbtide
