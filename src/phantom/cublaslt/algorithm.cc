// Algorithms, as the heuristic proposes them. There is one, with and without a split of the summed dimension.
#include "phantom/cublaslt/algorithm.h"

#include <algorithm>

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

constexpr std::int64_t kTile = 128;           // rows and columns of the result that one block computes
constexpr std::int64_t kSmallestSplit = 512;  // of the summed dimension, in elements
constexpr std::int64_t kMostSplits = 32;

// Of an algorithm, in the words that programs keep: configuration by its number, behind a mark.
constexpr std::uint64_t kAlgorithmMark = 0x6562622d616c676f;
constexpr std::uint8_t kConfigSizes[] = {4, 4, 4, 4, 4, 4, 4, 2, 2};
constexpr int kSplitOffset = 8, kReductionOffset = 12;

char* Config(cublasLtMatmulAlgo_t& algorithm) { return reinterpret_cast<char*>(&algorithm.data[1]); }
const char* Config(const cublasLtMatmulAlgo_t& algorithm) { return reinterpret_cast<const char*>(&algorithm.data[1]); }

int ConfigOffset(int id) {
  int offset = 0;
  for (int i = 0; i < id; ++i) offset += kConfigSizes[i];
  return offset;
}

std::int32_t Splits(const cublasLtMatmulAlgo_t& algorithm) {
  std::int32_t splits = 0;
  std::memcpy(&splits, Config(algorithm) + kSplitOffset, sizeof(splits));
  return splits;
}

void Make(cublasLtMatmulAlgo_t& algorithm, std::int32_t splits) {
  algorithm = {};
  algorithm.data[0] = kAlgorithmMark;
  std::int32_t reduction = splits > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
  std::int32_t tile = CUBLASLT_MATMUL_TILE_128x128;
  std::memcpy(Config(algorithm) + ConfigOffset(CUBLASLT_ALGO_CONFIG_TILE_ID), &tile, sizeof(tile));
  std::memcpy(Config(algorithm) + kSplitOffset, &splits, sizeof(splits));
  std::memcpy(Config(algorithm) + kReductionOffset, &reduction, sizeof(reduction));
}

std::int64_t Tiles(const LtProduct& product) {
  return ((product.m + kTile - 1) / kTile) * ((product.n + kTile - 1) / kTile) * product.batch;
}

// Partial sums in single precision (or double) for each split.
Bytes Workspace(const LtProduct& product, std::int32_t splits) {
  if (splits <= 1) return 0;
  std::int64_t elements = 0;
  if (__builtin_mul_overflow(product.m, product.n, &elements) ||
      __builtin_mul_overflow(elements, product.batch, &elements) ||
      __builtin_mul_overflow(elements, splits * product.sum_bytes, &elements))
    return ebbtide::kTooLarge;
  return elements;
}

void Fill(cublasLtMatmulHeuristicResult_t& result, const LtProduct& product, std::int32_t splits) {
  result.workspaceSize = static_cast<std::size_t>(Workspace(product, splits));
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = static_cast<float>(Tiles(product) * splits) / static_cast<float>(Profile().multiprocessors);
}

// So many that the blocks fill the device, where the sum is long enough for it.
std::int32_t UsefulSplits(const LtProduct& product) {
  std::int64_t room = Profile().multiprocessors / std::max<std::int64_t>(1, Tiles(product));
  return static_cast<std::int32_t>(
      std::clamp<std::int64_t>(product.k / kSmallestSplit, 1, std::clamp<std::int64_t>(room, 1, kMostSplits)));
}

}  // namespace

namespace ebbtide::phantom {

bool LtIsAlgorithm(const cublasLtMatmulAlgo_t& algorithm) { return algorithm.data[0] == kAlgorithmMark; }

Bytes LtWorkspace(const LtProduct& product, const cublasLtMatmulAlgo_t& algorithm) {
  return Workspace(product, Splits(algorithm));
}

}  // namespace ebbtide::phantom

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results, int* returned) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatmulAlgoGetHeuristic", handle, operation, requested);
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (requested <= 0 || !results || !returned || !LtIs(kPreferenceKind, preference)) return CUBLAS_STATUS_INVALID_VALUE;
  *returned = 0;
  LtProduct product;
  if (cublasStatus_t status = LtRead(operation, a, b, c, d, product); status != CUBLAS_STATUS_SUCCESS) return status;
  Bytes limit = LtValue(kPreferenceKind, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  if (limit < 0) limit = ebbtide::kTooLarge;  // an unsigned number in the header
  std::int32_t splits = UsefulSplits(product);
  while (splits > 1 && Workspace(product, splits) > limit) --splits;
  for (std::int32_t choice : {splits, 1}) {
    if (*returned == requested || (*returned == 1 && splits == 1)) break;
    cublasLtMatmulHeuristicResult_t& result = results[(*returned)++];
    result = {};
    Make(result.algo, choice);
    Fill(result, product, choice);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                        cudaDataType_t, cudaDataType_t, cudaDataType_t, int requested, int* ids,
                                        int* returned) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatmulAlgoGetIds", handle, requested);
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (requested <= 0 || !ids) return CUBLAS_STATUS_INVALID_VALUE;
  ids[0] = 0;
  if (returned) *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t, int id,
                                      cublasLtMatmulAlgo_t* algorithm) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatmulAlgoInit", handle, id);
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!algorithm || id != 0) return CUBLAS_STATUS_INVALID_VALUE;
  Make(*algorithm, 1);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatmulAlgoCheck", handle, operation);
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!algorithm || !result || !LtIsAlgorithm(*algorithm)) return CUBLAS_STATUS_INVALID_VALUE;
  LtProduct product;
  if (cublasStatus_t status = LtRead(operation, a, b, c, d, product); status != CUBLAS_STATUS_SUCCESS) return status;
  if (Splits(*algorithm) < 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  Fill(*result, product, Splits(*algorithm));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t id, const void* value,
                                                    size_t bytes) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatmulAlgoConfigSetAttribute", id, bytes);
  if (!algorithm || !LtIsAlgorithm(*algorithm) || !value) return CUBLAS_STATUS_INVALID_VALUE;
  if (id < 0 || id >= static_cast<int>(std::size(kConfigSizes)) || bytes != kConfigSizes[id])
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(Config(*algorithm) + ConfigOffset(id), value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t id, void* value, size_t bytes,
                                                    size_t* written) {
  EBB_PHANTOM_CALL(FromCode, "cublasLtMatmulAlgoConfigGetAttribute", id, bytes);
  if (!algorithm || !LtIsAlgorithm(*algorithm)) return CUBLAS_STATUS_INVALID_VALUE;
  if (id < 0 || id >= static_cast<int>(std::size(kConfigSizes))) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes == 0 ? !written : !value || bytes != kConfigSizes[id]) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes > 0) std::memcpy(value, Config(*algorithm) + ConfigOffset(id), bytes);
  if (written) *written = kConfigSizes[id];
  return CUBLAS_STATUS_SUCCESS;
}
