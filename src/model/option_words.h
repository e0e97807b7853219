// Options of a MODEL that are words, and what each stands for: on the command line and in Python alike.
#pragma once

#include <array>
#include <string_view>

#include "base/words.h"
#include "graph/dtype.h"
#include "model/model.h"

namespace ebbtide::model {

inline constexpr std::array<Word<Device>, 2> kDeviceWords = {{{"cpu", Device::kCpu}, {"cuda", Device::kCuda}}};
inline constexpr std::array<Word<DType>, 2> kAutocastWords = {{{"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}}};
inline constexpr std::array<Word<DType>, 3> kDtypeWords = {
    {{"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}, {"fp32", DType::kFloat32}}};
inline constexpr std::array<Word<Quantization>, 4> kQuantizeWords = {{{"nf4", Quantization::kNf4},
                                                                      {"int8", Quantization::kInt8},
                                                                      {"gptq4", Quantization::kGptq4},
                                                                      {"fp8", Quantization::kFp8}}};
inline constexpr std::array<Word<AttentionKernel>, 3> kAttentionWords = {
    {{"eager", AttentionKernel::kEager}, {"sdpa", AttentionKernel::kSdpa}, {"flash", AttentionKernel::kFlash}}};
inline constexpr std::array<Word<LossKernel>, 3> kLossWords = {
    {{"plain", LossKernel::kPlain}, {"fused", LossKernel::kFused}, {"chunked", LossKernel::kChunked}}};
inline constexpr std::array<Word<KernelSet>, 3> kKernelWords = {
    {{"plain", KernelSet::kPlain}, {"liger", KernelSet::kLiger}, {"foak", KernelSet::kFoak}}};

// "4.48"; what comes behind is left out.
Result<LibraryVersion> ParseLibraryVersion(std::string_view text);

// "reentrant", "offload", "every:N", or a pattern of layers; empty: repeated blocks.
Status SetCheckpoint(std::string_view text, ModelOptions& options);

}  // namespace ebbtide::model
