// What a skipped kernel would have written, where that follows from what the host gave the device: operators whose
// inputs are known and small are run once more on the CPU, on the same contents, and their results become known in the
// phantom's memory (src/phantom/core/values.h). All other results are unknown. Where a program needs an unknown value
// (a size, a branch), a stated assumption fills it, which is written down with the line.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ebbtide_observer {

// The phantom's functions (src/phantom/core/values.h).
struct ValuesOfPhantom {
  using OnRead = int (*)(const void*, size_t, int, uint32_t, void*);
  void (*watch_values)(OnRead) = nullptr;
  void (*enter)() = nullptr;
  int64_t (*leave)() = nullptr;
  int64_t (*launched)() = nullptr;
  int (*knows)(const void*, size_t, uint32_t*) = nullptr;
  int (*read)(const void*, size_t, void*, uint32_t*) = nullptr;
  void (*write)(const void*, size_t, const void*, uint32_t) = nullptr;
  void (*forget)(const void*, size_t) = nullptr;

  bool Find();  // false: this process has no phantom
};
extern ValuesOfPhantom memory;

// ---- What is known of operators (values_rules.cc)

// What an operator makes of unknown floats that a program may decide by.
enum class Border : uint8_t { kNone, kIndices, kValuesAndIndices, kFinite, kNotFinite, kScaler, kNoMask, kInfo };
// How the size of its result depends on content.
enum class Sizes : uint8_t {
  kByShape,
  kNonzero,
  kMaskedSelect,
  kUnique,
  kConsecutive,
  kUniqueDim,
  kRepeats,
  kBincount,
  kNms,
  kEqual
};

struct Rule {
  std::optional<c10::OperatorHandle> handle;  // none: not followed (views, operators that are made of others)
  std::string name;                           // "aten::topk"
  bool makes_nothing = false;                 // fresh memory without content, as `empty`
  bool reads = true;                          // false: its result does not depend on contents, as `zeros_like`
  bool on_cpu = false;                        // has a kernel for the CPU
  bool is_aten = false;
  bool transparent = false;  // what it calls inside is followed too
  bool heavy = false;        // work grows faster than bytes, as in matrix products
  bool is_random = false;    // the result is a draw
  bool mutates_any = false;
  std::vector<bool> mutates;    // by argument
  std::vector<bool> replaces;   // by argument: written without being read
  std::vector<bool> fresh;      // by result: not one of its arguments
  std::vector<int> statistics;  // arguments that the kernel writes and the schema does not tell
  Border border = Border::kNone;
  Sizes sizes = Sizes::kByShape;
};
const Rule& RuleOf(const c10::OperatorName& name);

// Contents of at most that many bytes are followed.
int64_t LargestOf(c10::ScalarType type);

// ---- Contents (values_content.cc)

// A strided tensor of the phantom's memory, and nothing that wraps one.
bool IsPlainOnDevice(const at::Tensor& tensor);
bool IsPlainOnHost(const at::Tensor& tensor);
bool Knows(const at::Tensor& tensor);
// On the CPU, with the same sizes and strides; undefined where it is not known. `origin` stays where it is not 0.
at::Tensor Read(const at::Tensor& tensor, uint32_t& origin);
// `value` lies in `tensor` now, of another type or layout as may be.
void Write(const at::Tensor& tensor, const at::Tensor& value, uint32_t origin);
void Forget(const at::Tensor& tensor);

// ---- Computing (values_compute.cc)

// The CPU's dispatcher without autograd, autocast, modes and observers. Values are computed in its scope.
class Quiet {
 public:
  Quiet();
  ~Quiet();
  static bool IsActive();  // in the calling thread

 private:
  struct Parts;
  Parts* parts_;
};

struct Computed {
  std::vector<c10::IValue> arguments;  // on the CPU, behind the call
  std::vector<c10::IValue> results;
  uint32_t origin = 0;
};
// Runs the operator on the CPU. Empty: something is unknown, too large, or the CPU has no such kernel.
std::optional<Computed> Compute(const Rule& rule, const std::vector<c10::IValue>& arguments);

template <class Visit>
void ForEachTensorOf(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& entry : value.toListRef()) {
      if (entry.isTensor())
        visit(entry.toTensor());
      else if (!entry.isNone())
        return;
    }
  }
}

// ---- Assumptions (values_assume.cc)

struct Assumptions {
  double masks = 1;      // share of unknown masks that is true
  bool balanced = true;  // unknown indices spread evenly; else all are the first
  double kept = 1;       // share of unknown candidates (proposals, distinct values) that is kept
  double values = 1;     // an unknown float that the host reads
  int64_t integers = 1;  // an unknown integer that the host reads
  bool finite = true;    // unknown values are finite
};
extern Assumptions assumptions;
// "masks=0.5,experts=first": false, and `error` says why, where it cannot be understood.
bool ParseAssumptions(const std::string& text, std::string& error);

enum class Assumed : uint8_t {
  kMasks,
  kIndices,
  kFinite,
  kKept,
  kDistinct,
  kRepeats,
  kValues,
  kIntegers,
  kDraw,
  kZeros,
  kSolved,
  kWithinBounds
};
std::string Describe(Assumed assumed);

// The number of an assumption that an operator's results rest on.
uint32_t OriginOf(Assumed assumed, const std::string& operator_name, const std::string& line);
bool IsOrigin(uint32_t number, Assumed assumed);
// Notes that something was decided by what nobody knows: `what` happened at `line`.
void Record(Assumed assumed, const std::string& line, const std::string& what, const std::string& led_to);
void RecordOrigin(uint32_t origin, const std::string& line, const std::string& what, const std::string& led_to);
// All of it: [{"line", "what", "led_to", "assumed", "count"}].
std::string RecordsAsJson();

// What fills an unknown result of `sizes`, on the CPU.
at::Tensor AssumedMask(at::IntArrayRef sizes, bool finite_test, bool value);
at::Tensor AssumedIndices(const Rule& rule, const std::vector<c10::IValue>& arguments, at::IntArrayRef sizes);

}  // namespace ebbtide_observer
