// Python's frames through functions of its stable interface, declared here so that its headers need not be installed.
#include "frames.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

extern "C" {
#define EBB_PYTHON __attribute__((weak))
EBB_PYTHON int Py_IsInitialized();
EBB_PYTHON int PyGILState_Ensure();
EBB_PYTHON void PyGILState_Release(int);
EBB_PYTHON void* PyGILState_GetThisThreadState();
EBB_PYTHON void* PyEval_GetFrame();  // borrowed
EBB_PYTHON void* PyFrame_GetBack(void*);
EBB_PYTHON void* PyFrame_GetCode(void*);
EBB_PYTHON int PyFrame_GetLineNumber(void*);
EBB_PYTHON void* PyObject_GetAttrString(void*, const char*);
EBB_PYTHON const char* PyUnicode_AsUTF8AndSize(void*, intptr_t*);
EBB_PYTHON void PyErr_Clear();
EBB_PYTHON void Py_IncRef(void*);
EBB_PYTHON void Py_DecRef(void*);
#undef EBB_PYTHON
}

namespace ebbtide_observer {
namespace {

constexpr int kMostFrames = 100;
constexpr size_t kRemembered = 1 << 16;

std::vector<std::string> inner_folders;

struct File {
  std::string name;
  bool is_inner = false;
};

bool IsInner(const std::string& file) {
  if (file.empty()) return true;
  if (file[0] == '<') {  // generated, unless somebody typed it
    for (const char* typed : {"<string>", "<stdin>", "<ipython-input"})
      if (file.rfind(typed, 0) == 0) return false;
    return true;
  }
  for (const std::string& folder : inner_folders) {
    if (file.rfind(folder, 0) != 0) continue;
    const std::string rest = "/" + file.substr(folder.size());
    if (rest.find("/site-packages/") == std::string::npos && rest.find("/dist-packages/") == std::string::npos)
      return true;
  }
  return false;
}

// By code object, each of which is kept alive. Guarded by Python's lock.
const File& FileOf(void* code) {
  static auto* files = new std::unordered_map<void*, File>;
  auto found = files->find(code);
  if (found != files->end()) return found->second;
  File file;
  if (void* name = PyObject_GetAttrString(code, "co_filename")) {
    if (const char* text = PyUnicode_AsUTF8AndSize(name, nullptr)) file.name = text;
    Py_DecRef(name);
  }
  PyErr_Clear();
  file.is_inner = IsInner(file.name);
  Py_IncRef(code);
  return files->emplace(code, std::move(file)).first->second;
}

// Visits the calling thread's frames from the innermost one on, until `visit` returns false.
template <class Visit>
void ForEachFrame(Visit&& visit) {
  // A thread that Python does not know has no frames.
  if (!Py_IsInitialized || !PyFrame_GetBack || !Py_IsInitialized() || !PyGILState_GetThisThreadState()) return;
  int state = PyGILState_Ensure();
  void* frame = PyEval_GetFrame();
  if (frame) Py_IncRef(frame);
  for (int i = 0; frame && i < kMostFrames; ++i) {
    void* code = PyFrame_GetCode(frame);
    const bool goes_on = visit(frame, code);
    Py_DecRef(code);
    if (!goes_on) break;
    void* back = PyFrame_GetBack(frame);
    Py_DecRef(frame);
    frame = back;
  }
  if (frame) Py_DecRef(frame);
  PyGILState_Release(state);
}

std::string PythonFrame() {
  std::string text;
  ForEachFrame([&](void* frame, void* code) {
    const File& file = FileOf(code);
    if (!file.is_inner) text = file.name + ":" + std::to_string(PyFrame_GetLineNumber(frame));
    return file.is_inner;
  });
  return text;
}

struct Remembered {
  uint64_t thread = 0;
  int64_t sequence = -1;
  std::string frame;
};
std::mutex mutex;
std::array<Remembered, kRemembered>& Memory() {
  static auto* memory = new std::array<Remembered, kRemembered>;
  return *memory;
}

std::vector<std::string>& BackwardFrames() {
  thread_local std::vector<std::string> frames;
  return frames;
}

}  // namespace

void SetInnerFolders(const std::string& folders) {
  inner_folders.clear();
  for (size_t at = 0; at < folders.size();) {
    const size_t end = std::min(folders.find('\n', at), folders.size());
    if (end > at) inner_folders.push_back(folders.substr(at, end - at));
    at = end + 1;
  }
}

std::string CurrentFrame(uint64_t thread, int64_t sequence) {
  if (!BackwardFrames().empty() && !BackwardFrames().back().empty()) return BackwardFrames().back();
  std::string frame = PythonFrame();
  if (sequence >= 0 && !frame.empty()) {
    std::lock_guard<std::mutex> lock(mutex);
    Memory()[static_cast<size_t>(sequence) % kRemembered] = {thread, sequence, frame};
  }
  return frame;
}

bool IsInside(const char* function) {
  bool found = false;
  ForEachFrame([&](void*, void* code) {
    if (void* name = PyObject_GetAttrString(code, "co_name")) {
      const char* text = PyUnicode_AsUTF8AndSize(name, nullptr);
      found = text && std::strcmp(text, function) == 0;
      Py_DecRef(name);
    }
    PyErr_Clear();
    return !found && FileOf(code).is_inner;
  });
  return found;
}

void EnterBackward(uint64_t thread, int64_t sequence) {
  std::string frame;
  if (sequence >= 0) {
    std::lock_guard<std::mutex> lock(mutex);
    const Remembered& known = Memory()[static_cast<size_t>(sequence) % kRemembered];
    if (known.thread == thread && known.sequence == sequence) frame = "backward of " + known.frame;
  }
  BackwardFrames().push_back(std::move(frame));
}

void LeaveBackward() {
  if (!BackwardFrames().empty()) BackwardFrames().pop_back();
}

}  // namespace ebbtide_observer
