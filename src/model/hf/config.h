// From settings to a Decoder: sizes, and what the family leaves open.
#pragma once

#include "base/result.h"
#include "model/hf/families.h"
#include "model/hf/settings.h"

namespace ebbtide::model::hf {

// Fails where a setting is not what it should be, or sizes contradict each other.
Result<Decoder> ReadDecoder(const FamilyRow& family, Settings settings);

// Limits within which no product of sizes overflows; see CheckProducts in read.cc.
inline constexpr std::int64_t kMostWidth = std::int64_t{1} << 18, kMostWords = std::int64_t{1} << 24,
                              kMostLayers = 1024, kMostHeads = 4096, kMostExperts = 4096,
                              kMostHidden = std::int64_t{1} << 20;

}  // namespace ebbtide::model::hf
