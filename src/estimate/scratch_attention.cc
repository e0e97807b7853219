// Fused attention. Backward: sums in float32 that all blocks of keys add to, and products of rows.
#include "estimate/scratch_rules.h"
#include "graph/arguments.h"
#include "graph/dtype.h"

namespace ebbtide::estimate {
namespace {

constexpr Bytes kFloat = 4;

std::int64_t DivideUp(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

// Shapes of [batch, heads, length, width].
struct Attention {
  const Tensor* query = nullptr;
  const Tensor* key = nullptr;
  const Tensor* value = nullptr;
  std::int64_t heads = 0;  // of all queries of the batch
};

bool Find(const ScratchQuery& query, Attention& attention) {
  attention = {query.Argument("query"), query.Argument("key"), query.Argument("value")};
  for (const Tensor* tensor : {attention.query, attention.key, attention.value}) {
    if (tensor == nullptr || tensor->shape.size() != 4) return false;
  }
  attention.heads = SaturatingMul(attention.query->shape[0], attention.query->shape[1]);
  return true;
}

}  // namespace

// With dropout, the generator's seed and offset.
void FlashAttentionScratch(const ScratchQuery& query, ScratchList& scratch) {
  const double* dropout = ArgumentAs<double>(query.op, "dropout_p");
  if (dropout != nullptr && *dropout > 0) scratch.Take(query.op.outputs.size(), 2 * sizeof(std::int64_t));
}

// Row sums, for a multiple of 128 queries; the gradient of the query, its heads widened to a multiple of 32; and keys
// and values for each query head, where several share one.
void FlashAttentionBackwardScratch(const ScratchQuery& query, ScratchList& scratch) {
  Attention a;
  if (!Find(query, a)) return;
  const std::int64_t rows = SaturatingMul(a.heads, RoundUp(a.query->shape[2], 128));
  const std::int64_t width = a.query->shape[3] <= 192 ? RoundUp(a.query->shape[3], 32) : 256;
  const std::size_t results = query.op.outputs.size();
  scratch.Take(results, SaturatingMul(rows, kFloat));
  scratch.Take(results, SaturatingMul(rows, width * kFloat));
  if (a.key->shape[1] == a.query->shape[1]) return;
  const Bytes row = SaturatingMul(a.key->shape[3], ItemSize(a.key->dtype));
  const Bytes widened = SaturatingMul(SaturatingMul(a.heads, a.key->shape[2]), row);
  scratch.Take(results, widened);
  scratch.Take(results, widened);
}

// The row sums of gradient times result, turned so that heads come first; then, for each block of 64 queries, the sum
// of its gradient in squares of 64 x 64 with four words to wait by.
void EfficientAttentionBackwardScratch(const ScratchQuery& query, ScratchList& scratch) {
  constexpr std::int64_t kBlock = 64, kWords = kBlock * kBlock + 4;
  Attention a;
  if (!Find(query, a)) return;
  const std::size_t results = query.op.outputs.size();
  const std::int64_t rows = SaturatingMul(a.heads, a.query->shape[2]);
  const Bytes product = SaturatingMul(rows, SaturatingMul(a.value->shape[3], kFloat));
  const bool is_half = ItemSize(a.query->dtype) < kFloat;
  const ScratchList::Place as_float[] = {scratch.Take(results, is_half ? product : 0),
                                         scratch.Take(results, is_half ? product : 0)};
  const ScratchList::Place products = scratch.Take(results, product);
  const ScratchList::Place sums = scratch.Take(results, SaturatingMul(rows, kFloat));
  scratch.Take(results, SaturatingMul(rows, kFloat));
  for (const ScratchList::Place place : {sums, products, as_float[0], as_float[1]}) scratch.Release(place, results);
  const std::int64_t blocks = SaturatingMul(DivideUp(a.query->shape[2], kBlock), DivideUp(a.query->shape[3], kBlock));
  scratch.Take(results, SaturatingMul(SaturatingMul(a.heads, blocks), kWords * kFloat));
}

}  // namespace ebbtide::estimate
