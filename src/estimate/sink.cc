// Kinds of storage as categories.
#include "estimate/sink.h"

namespace ebbtide::estimate {

Category CategoryOf(StorageKind kind) {
  switch (kind) {
    case StorageKind::kParameter: return Category::kParameter;
    case StorageKind::kBuffer: return Category::kBuffer;
    case StorageKind::kGradient: return Category::kGradient;
    case StorageKind::kOptimizerState: return Category::kOptimizerState;
    case StorageKind::kInput: return Category::kInput;
    case StorageKind::kActivation: return Category::kActivation;
    case StorageKind::kTemporary: return Category::kTemporary;
  }
  return Category::kTemporary;
}

}  // namespace ebbtide::estimate
