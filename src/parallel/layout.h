// How a training is spread over GPUs: which axes there are, and how parameters, gradients and state lie on each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "base/words.h"
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

// Versions of torch's FSDP, and stages of ZeRO.
inline constexpr std::array<Word<DataParallel>, 2> kFsdpWords = {
    {{"1", DataParallel::kFsdp1}, {"2", DataParallel::kFsdp2}}};
inline constexpr std::array<Word<DataParallel>, 3> kZeroWords = {
    {{"1", DataParallel::kZero1}, {"2", DataParallel::kZero2}, {"3", DataParallel::kZero3}}};

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

  bool sequence_parallel = true;  // with tp: what lies between the shared matrices is divided along the sequence
  bool loss_parallel = true;      // with tp: scores stay divided by classes
  // With pp: a batch is cut into so many, which pass the stages one behind the other; 0: as many as stages.
  std::int64_t microbatches = 0;
  std::int64_t chunks = 1;  // with pp: parts of the model on each rank; more than one: interleaved 1F1B
  std::int64_t stage = 0;   // with pp: which rank of the pipeline the graph is for

  // ---- As the training around it has them.
  // Gradients of several batches: those of each are reduced, as Lightning and torchtitan have it and DeepSpeed from
  // stage 2 on; else they add up as they are, and the last batch's backward reduces them, as accelerate has it.
  bool reduces_each_batch = false;
  // Shards of these types, gathered in the graph's own: accelerate keeps float32 shards of what is trained where
  // computation is in 16 bits. Absent: the graph's.
  std::optional<DType> trained_shards, frozen_shards;
  bool adapters_apart =
      false;               // trained modules of a frozen block are units of their own, as peft wraps them for FSDP1
  bool reentrant = false;  // blocks are recomputed by torch.utils.checkpoint with use_reentrant=True

  // Ranks that see different tokens: of different samples, or of a sequence that they share.
  std::int64_t data_ranks() const { return gpus / (tp * pp); }
  bool IsPlain() const { return gpus == 1; }
  std::int64_t passes() const { return pp == 1 ? 1 : microbatches > 0 ? microbatches : pp; }
};

// "fsdp2 over 8 GPUs".
std::string Describe(const Layout& layout);

// The command line's flags for its axes: "--tp 2 --fsdp".
std::string FlagsOf(const Layout& layout);

// Whether it says how several GPUs share the work.
inline bool HasAxes(const Layout& layout) {
  return layout.data != DataParallel::kNone || layout.tp * layout.pp * layout.cp > 1;
}

// What is usual for so many GPUs, of machines of so many: each way to share samples; matrices over 2, 4 and so on of a
// machine's GPUs, the rest sharded; stages, the rest as DDP has it.
std::vector<Layout> UsualLayouts(std::int64_t gpus, std::int64_t machine_gpus);

// Fails where the axes do not multiply to the GPUs, or several GPUs have nothing to share.
Status CheckLayout(const Layout& layout);

}  // namespace ebbtide::parallel
