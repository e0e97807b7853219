// Modules of kernels that a program loads while it runs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "phantom/core/handles.h"
#include "phantom/core/kernels.h"

namespace ebbtide::phantom {

struct Module {
  std::mutex mutex;
  std::map<std::string, Kernel*> kernels;
};

class Modules {
 public:
  // `image` is a cubin, a fat binary or PTX text, of which only the first bytes are read; null where it is none of
  // these.
  std::shared_ptr<Module> Load(const void* image);
  std::shared_ptr<Module> Find(const void* handle) { return handles_.Find(handle); }
  bool Unload(const void* handle) { return handles_.Remove(handle) != nullptr; }
  // The kernel of that name. Images are not read, so that every name has one.
  Kernel* KernelOf(Module& module, const std::string& name);

 private:
  Handles<Module> handles_;
};

Modules& TheModules();

}  // namespace ebbtide::phantom
