// How a training is spread over GPUs: which axes there are, and how parameters, gradients and state lie on each.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "graph/dtype.h"

namespace ebbtide::parallel {

// How ranks that see different samples share the model.
enum class DataParallel : std::uint8_t {
  kNone,
  kDdp,    // torch's DistributedDataParallel: all of the model on every rank, gradients reduced in buckets
  kFsdp1,  // torch's FullyShardedDataParallel: one flat parameter per unit
  kFsdp2,  // torch's fully_shard: a shard of every parameter
  kZero1,  // DeepSpeed: the optimizer's state is sharded,
  kZero2,  // gradients too,
  kZero3   // and parameters
};

struct Layout {
  std::int64_t gpus = 1;  // all ranks together
  DataParallel data = DataParallel::kNone;
  std::int64_t tp = 1;  // ranks that share every matrix
  std::int64_t pp = 1;  // stages, one behind the other
  std::int64_t cp = 1;  // ranks that share a sequence

  // ---- As the libraries have them, unless told otherwise.
  Bytes ddp_bucket = 25 * kMiB;            // bucket_cap_mb
  Bytes ddp_first_bucket = kMiB;           // the first to be full is small, so that reduction begins early
  bool gradients_are_views = false;        // gradient_as_bucket_view: gradients lie in the buckets
  bool reshard_after_forward = true;       // a unit's parameters are gathered again for backward
  std::int64_t zero_bucket = 500'000'000;  // elements: reduce_bucket_size and allgather_bucket_size

  // Ranks that see different samples.
  std::int64_t data_ranks() const { return gpus / (tp * pp * cp); }
  bool IsPlain() const { return gpus == 1; }
};

// "fsdp2 over 8 GPUs".
std::string Describe(const Layout& layout);

// Fails where the axes do not multiply to the GPUs, or several GPUs have nothing to share.
Status CheckLayout(const Layout& layout);

}  // namespace ebbtide::parallel
