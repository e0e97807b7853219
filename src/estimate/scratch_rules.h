// The rules behind scratch.h, by kernel family. Each adds what the op takes, in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "device/workspace_rules.h"
#include "estimate/scratch.h"

namespace ebbtide::estimate {

struct ScratchQuery {
  const TrainingGraph& graph;
  const Op& op;
  const DeviceProfile& gpu;

  const Tensor* Argument(std::string_view name) const;  // null where it is absent or None
};

// How the tensors that an op is given must lie for what is known of its scratch memory to hold.
enum class Layout : std::uint8_t {
  kAny,
  kDense,       // no tensor is expanded: products and kernels copy those
  kDenseFirst,  // the first tensor, a gradient, is not
  kPlanar,      // none has its channels innermost, for which there are other kernels
  kImages,      // each image row-major, or all with channels innermost
};

// Whether ops of this kind take no scratch memory, however their tensors lie (needs_none.cc).
bool NeedsNoScratch(std::string_view kind);

// Written down in the order in which the kernel takes and frees.
class ScratchList {
 public:
  using Place = std::size_t;

  // Takes scratch memory when `results` of the op's results are there. It lives as long as the op, unless it is
  // released. Zero bytes are not taken; their place may be released all the same.
  Place Take(std::size_t results, Bytes bytes) {
    if (bytes <= 0) return Scratch::kWholeOp;
    taken_.push_back({results, bytes, Scratch::kWholeOp, Scratch::kWholeOp});
    return taken_.size() - 1;
  }
  // Frees it after all that was taken so far, when `results` of the op's results are there.
  void Release(Place place, std::size_t results) {
    if (place == Scratch::kWholeOp) return;
    taken_[place].until_results = results;
    taken_[place].outlives = taken_.size() - 1 - place;
  }
  void TakeAndRelease(std::size_t results, Bytes bytes) { Release(Take(results, bytes), results); }

  std::vector<Scratch>& taken() { return taken_; }

 private:
  std::vector<Scratch> taken_;
};
using ScratchRule = void (*)(const ScratchQuery& query, ScratchList& scratch);

// cuDNN's workspaces and the copies in the layout that it reads (scratch_convolution.cc).
void ConvolutionScratch(const ScratchQuery& query, ScratchList& scratch);
void ConvolutionBackwardScratch(const ScratchQuery& query, ScratchList& scratch);
// Of a "convolution" that cuDNN computes; none of any other op.
std::optional<ConvolutionProblem> ForwardConvolutionOf(const TrainingGraph& graph, const Op& op,
                                                       const DeviceProfile& gpu);

// Partial results of reductions that several blocks share (scratch_reduction.cc).
void ReductionScratch(const ScratchQuery& query, ScratchList& scratch);
// Adds what a sum of `from` over `axes` takes (negative axes count from the end; none: all).
void AddReduction(const Tensor& from, const Dims& axes, const DeviceProfile& gpu, std::size_t after_results,
                  ScratchList& scratch);

// Copies of what a kernel reads only row by row, and products that it does not make in place (scratch.cc).
void LayerNormScratch(const ScratchQuery& query, ScratchList& scratch);
void LayerNormBackwardScratch(const ScratchQuery& query, ScratchList& scratch);

// Copies of all tensors that are not row-major (scratch.cc).
void CopiesScratch(const ScratchQuery& query, ScratchList& scratch);
// The same of the first alone, the gradient.
void GradientCopyScratch(const ScratchQuery& query, ScratchList& scratch);
void SoftmaxBackwardScratch(const ScratchQuery& query, ScratchList& scratch);
void EmbeddingScratch(const ScratchQuery& query, ScratchList& scratch);
void EmbeddingBackwardScratch(const ScratchQuery& query, ScratchList& scratch);

// Fused attention (scratch_attention.cc).
void FlashAttentionScratch(const ScratchQuery& query, ScratchList& scratch);
void FlashAttentionBackwardScratch(const ScratchQuery& query, ScratchList& scratch);
void EfficientAttentionBackwardScratch(const ScratchQuery& query, ScratchList& scratch);

// Weights of few bits, and adapters that are computed with them (scratch_lora.cc).
void QuantizedLinearScratch(const ScratchQuery& query, ScratchList& scratch);
void FusedLoraScratch(const ScratchQuery& query, ScratchList& scratch);
void FusedLoraWeightsBackwardScratch(const ScratchQuery& query, ScratchList& scratch);
void FusedLoraInputBackwardScratch(const ScratchQuery& query, ScratchList& scratch);

// cuDNN's recurrent networks (scratch_recurrent.cc).
void RecurrentScratch(const ScratchQuery& query, ScratchList& scratch);
void RecurrentBackwardScratch(const ScratchQuery& query, ScratchList& scratch);

Bytes SizeOf(const Tensor& tensor);
bool IsRowMajor(const Tensor& tensor);
// Channels innermost, as torch.channels_last has it; images and volumes only.
bool IsChannelsLast(const Tensor& tensor);

}  // namespace ebbtide::estimate
