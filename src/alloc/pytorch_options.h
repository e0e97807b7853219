// How PyTorch's allocator is set up: the string of PYTORCH_ALLOC_CONF (PYTORCH_CUDA_ALLOC_CONF before torch 2.9).
#pragma once

#include <array>
#include <limits>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide::alloc {

struct PytorchOptions {
  enum class Backend { kNative, kCudaMallocAsync };
  static constexpr std::size_t kSizeClasses = 16;  // powers of two from 1 MiB, the last one open

  // ---- What the models know
  Backend backend = Backend::kNative;
  bool expandable_segments = false;
  // Blocks of this size and above are not split, and serve only requests of this size and above.
  Bytes max_split_size = kUnlimited;
  // How much larger than the request such a block may be.
  Bytes max_non_split_rounding = 20 * kMiB;
  // Segment for requests of 1 to 10 MiB, and the page of expandable segments for all above 1 MiB.
  Bytes large_segment_size = 20 * kMiB;
  // Requests of a class are rounded up to 1/d of the power of two below them; 0 or 1: they are not.
  std::array<Bytes, kSizeClasses> roundup_power2_divisions{};
  // Share of the allowed memory above which unused blocks are given back by age; 0: never.
  double garbage_collection_threshold = 0;
  // Share of the device's memory that may be taken; 1: no limit is kept, and garbage is not collected.
  double per_process_memory_fraction = 1;
  // A limit is kept, as set_per_process_memory_fraction sets one, even where the share is 1.
  bool memory_fraction_is_set = false;

  // Of free blocks of one size, the one in the oldest segment is taken, then the one at the lowest address, as in
  // torch 2.12; versions up to 2.10 had only the address.
  bool ties_by_age = true;

  static constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

  bool operator==(const PytorchOptions&) const = default;
};

// "key:value,key:[a:b,c:d]", blanks ignored, as torch 2.15 reads it. Options without effect on device memory are
// taken and ignored. Errors name the option.
Result<PytorchOptions> ParsePytorchOptions(std::string_view text);

// Of a request, before pools are looked at: multiples of 512 bytes, or of a share of a power of two.
Bytes RoundRequest(const PytorchOptions& options, Bytes bytes);

}  // namespace ebbtide::alloc
