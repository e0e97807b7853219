// A mark in the output folder, and the watcher of Python programs for those that started without it: Python leaves
// sitecustomize out under -I, -S and -E, and a program may import torch past every finder.
#include "phantom/core/begin.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "phantom/core/config.h"

namespace ebbtide::phantom {
namespace {

template <class Function>
Function* Symbol(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// Runs in the main thread, between two instructions of the program. attach.py does nothing where a watcher is there.
int Attach(void*) {
  constexpr const char* kCode =
      "exec(open(__import__('os').environ['EBBTIDE_DRYRUN_SITE'] + '/attach.py').read(), "
      "{'__name__': '_ebbtide_late', '__file__': __import__('os').environ['EBBTIDE_DRYRUN_SITE'] + '/attach.py'})";
  if (auto* run = Symbol<int(const char*)>("PyRun_SimpleString")) run(kCode);
  return 0;
}

void AskPython() {
  if (std::getenv("EBBTIDE_DRYRUN_SITE") == nullptr) return;
  auto* is_initialized = Symbol<int()>("Py_IsInitialized");
  auto* add_pending_call = Symbol<int(int (*)(void*), void*)>("Py_AddPendingCall");
  if (is_initialized && add_pending_call && is_initialized()) add_pending_call(&Attach, nullptr);
}

}  // namespace

void DeviceIsUsed() {
  static std::atomic<int> marked{0};
  const int pid = getpid();  // a child by fork has its parent's memory
  if (marked.exchange(pid) == pid) return;
  if (const std::string& folder = TheConfig().output; !folder.empty()) {
    char path[4096];
    std::snprintf(path, sizeof(path), "%s/%d.begun", folder.c_str(), pid);
    if (const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644); fd >= 0) close(fd);
  }
  AskPython();
}

}  // namespace ebbtide::phantom
