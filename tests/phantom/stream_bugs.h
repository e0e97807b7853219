// Small correct programs over streams, each with places where it can be made wrong, one bug at a time.
#pragma once

#include <cuda.h>

#include <string>
#include <vector>

#include "phantom/core/declare.h"
#include "tests/support/phantom/driver.h"

namespace ebbtide::phantom {

// One run of a program: with all in order, or with the bug of that name.
class BugRun {
 public:
  explicit BugRun(std::string bug) : bug_(std::move(bug)) {}

  // Whether this is the place and the run to be wrong in.
  bool Bug(const char* name) {
    bool is_new = true;
    for (const std::string& known : names_) is_new = is_new && known != name;
    if (is_new) names_.push_back(name);
    return bug_ == name;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::string bug_;
  std::vector<std::string> names_;
};

// A piece of device memory.
struct Part {
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;

  Part Rows(std::size_t first, std::size_t count) const { return {begin + first * kRow, count * kRow}; }
  static constexpr std::size_t kRow = 512;
};

inline Part NewPart(std::size_t rows = 16) { return {Allocate(rows * Part::kRow), rows * Part::kRow}; }

// A kernel with declared accesses.
inline void Kernel(CUstream stream, const char* name, const std::vector<Part>& reads, const std::vector<Part>& writes) {
  ebbtide_phantom_begin(name, "");
  for (const Part& part : reads)
    ebbtide_phantom_declare(stream, reinterpret_cast<void*>(part.begin), part.bytes, 0, nullptr);
  for (const Part& part : writes)
    ebbtide_phantom_declare(stream, reinterpret_cast<void*>(part.begin), part.bytes, 1, nullptr);
  ebbtide_phantom_kernel(stream, name, 1000);
  ebbtide_phantom_end();
}

inline void Record(CUevent event, CUstream stream) { EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS); }
inline void Wait(CUstream stream, CUevent event) { EXPECT_EQ(cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS); }
inline void Synchronize(CUstream stream) { EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS); }

struct BugProgram {
  const char* name;
  void (*run)(BugRun&);
};
const std::vector<BugProgram>& BugPrograms();

}  // namespace ebbtide::phantom
