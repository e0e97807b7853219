// Calls of the watcher (python/ebbtide/dryrun_site), which it registers, and of Python, found by name.
#include "phantom/core/program.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "phantom/core/declare.h"

namespace ebbtide::phantom {
namespace {

std::atomic<ebbtide_phantom_line> line_of{nullptr};
std::atomic<ebbtide_phantom_finish_program> finish{nullptr};
std::atomic<int> program_rank{-1};

template <class Function>
Function* PythonFunction(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

std::string ProgramLine() {
  char text[200] = {};
  const ebbtide_phantom_line ask = line_of.load(std::memory_order_acquire);
  if (!ask || !ask(text, sizeof(text))) return "";
  text[sizeof(text) - 1] = '\0';
  return text;
}

void LetSignalsIn() {
  if (syscall(SYS_gettid) != getpid() || !line_of.load(std::memory_order_acquire)) return;
  static auto* ensure = PythonFunction<int()>("PyGILState_Ensure");
  static auto* release = PythonFunction<void(int)>("PyGILState_Release");
  static auto* check = PythonFunction<int()>("PyErr_CheckSignals");
  if (!ensure || !release || !check) return;
  const int state = ensure();
  const bool interrupted = check() != 0;
  release(state);
  constexpr int kInterrupted = 130;
  if (interrupted) EndProgram(kInterrupted);
}

void EndProgram(int status) {
  if (const ebbtide_phantom_finish_program function = finish.exchange(nullptr)) function();
  _exit(status);
}

int ProgramRank() { return program_rank.load(std::memory_order_relaxed); }

}  // namespace ebbtide::phantom

void ebbtide_phantom_set_program(ebbtide_phantom_line line, ebbtide_phantom_finish_program finish_program) {
  ebbtide::phantom::line_of = line;
  ebbtide::phantom::finish = finish_program;
}

void ebbtide_phantom_set_rank(int rank) { ebbtide::phantom::program_rank = rank; }
