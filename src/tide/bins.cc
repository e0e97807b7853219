// Two levels of bits over the bins, and a FreeSet for large chunks.
#include "tide/bins.h"

#include <bit>

namespace ebbtide::tide {

void TideBins::Add(TideChunks& chunks, Index index) {
  TideChunks::Chunk& chunk = chunks[index];
  const std::size_t bin = static_cast<std::size_t>(chunk.size / kStep);
  if (bin >= kBins) return large_.Insert({chunk.size, chunk.address, 0, index});
  if (bins_.empty()) bins_.assign(kBins, TideChunks::kNone);
  chunk.before = TideChunks::kNone;
  chunk.behind = bins_[bin];
  if (chunk.behind != TideChunks::kNone) chunks[chunk.behind].before = index;
  bins_[bin] = index;
  bits_[bin / kWord] |= std::uint64_t{1} << bin % kWord;
  used_ |= std::uint64_t{1} << bin / kWord;
}

void TideBins::Remove(TideChunks& chunks, Index index) {
  const TideChunks::Chunk& chunk = chunks[index];
  const std::size_t bin = static_cast<std::size_t>(chunk.size / kStep);
  if (bin >= kBins) return large_.Erase(chunk.size, 0, chunk.address);
  if (chunk.behind != TideChunks::kNone) chunks[chunk.behind].before = chunk.before;
  if (chunk.before != TideChunks::kNone) {
    chunks[chunk.before].behind = chunk.behind;
    return;
  }
  bins_[bin] = chunk.behind;
  if (chunk.behind != TideChunks::kNone) return;
  bits_[bin / kWord] &= ~(std::uint64_t{1} << bin % kWord);
  if (bits_[bin / kWord] == 0) used_ &= ~(std::uint64_t{1} << bin / kWord);
}

TideBins::Index TideBins::NextBin(std::size_t bin) const {
  if (bin < kBins) {
    std::size_t word = bin / kWord;
    std::uint64_t bits = bits_[word] & (~std::uint64_t{0} << bin % kWord);
    if (bits == 0) {
      const std::uint64_t words = word + 1 < kWord ? used_ & (~std::uint64_t{0} << (word + 1)) : 0;
      word = static_cast<std::size_t>(std::countr_zero(words));
      bits = words != 0 ? bits_[word] : 0;
    }
    if (bits != 0) return bins_[word * kWord + static_cast<std::size_t>(std::countr_zero(bits))];
  }
  return large_.empty() ? TideChunks::kNone : large_.At(large_.begin()).block;
}

TideBins::Index TideBins::Find(Bytes size) const {
  const std::size_t bin = static_cast<std::size_t>((size + kStep - 1) / kStep);
  if (bin < kBins) return NextBin(bin);
  const auto found = large_.LowerBound(size);
  return found == large_.end() ? TideChunks::kNone : large_.At(found).block;
}

TideBins::Index TideBins::After(const TideChunks& chunks, Index index) const {
  const TideChunks::Chunk& chunk = chunks[index];
  const std::size_t bin = static_cast<std::size_t>(chunk.size / kStep);
  if (bin < kBins) return chunk.behind != TideChunks::kNone ? chunk.behind : NextBin(bin + 1);
  const auto found = large_.LowerBound(chunk.size, 0, chunk.address + 1);
  return found == large_.end() ? TideChunks::kNone : large_.At(found).block;
}

TideBins::Index TideBins::Last() const {
  if (!large_.empty()) return large_.At(large_.Previous(large_.end())).block;
  if (used_ == 0) return TideChunks::kNone;
  const std::size_t word = kWord - 1 - static_cast<std::size_t>(std::countl_zero(used_));
  return bins_[word * kWord + kWord - 1 - static_cast<std::size_t>(std::countl_zero(bits_[word]))];
}

}  // namespace ebbtide::tide
