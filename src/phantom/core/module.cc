// Modules are known by how their images begin.
#include "phantom/core/module.h"

#include <cstring>

namespace ebbtide::phantom {
namespace {

bool LooksLikeImage(const void* image) {
  constexpr unsigned kFatBinary = 0xba55ed50;         // the container of cubins and PTX
  constexpr unsigned kFatBinaryWrapper = 0x466243b1;  // what nvcc puts around it
  unsigned first = 0;
  std::memcpy(&first, image, sizeof(first));
  if (std::memcmp(&first, "\177ELF", 4) == 0 || first == kFatBinary || first == kFatBinaryWrapper) return true;
  // PTX is text: a comment or a directive after blanks.
  const char* text = static_cast<const char*>(image);
  while (*text == ' ' || *text == '\n' || *text == '\r' || *text == '\t') ++text;
  return std::strncmp(text, "//", 2) == 0 || std::strncmp(text, "/*", 2) == 0 || std::strncmp(text, ".version", 8) == 0;
}

}  // namespace

std::shared_ptr<Module> Modules::Load(const void* image) { return LooksLikeImage(image) ? handles_.Create() : nullptr; }

Kernel* Modules::KernelOf(Module& module, const std::string& name) {
  std::lock_guard lock(module.mutex);
  Kernel*& kernel = module.kernels[name];
  if (!kernel) kernel = TheKernels().Make(name, &module);
  return kernel;
}

Modules& TheModules() {
  static Modules* modules = new Modules;
  return *modules;
}

}  // namespace ebbtide::phantom
