// The many ways to make a plan or to ask what it would need.
#include <algorithm>
#include <vector>

#include "phantom/cufft/plan.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

using Lengths = std::vector<long long>;

template <class T>
Lengths Read(int rank, const T* n) {
  return n && rank >= 1 && rank <= 3 ? Lengths(n, n + rank) : Lengths();
}

cufftResult ShapeOf(const Lengths& lengths, cufftType type, long long batch, FftShape& shape) {
  shape.lengths = lengths;
  shape.batch = batch;
  return ReadType(type, shape);
}

cufftResult Make(cufftHandle handle, const Lengths& lengths, cufftType type, long long batch, std::size_t* bytes) {
  std::shared_ptr<FftPlan> plan = FindFft(handle);
  if (!plan) return CUFFT_INVALID_PLAN;
  FftShape shape;
  if (cufftResult result = ShapeOf(lengths, type, batch, shape); result != CUFFT_SUCCESS) return result;
  return MakeFft(*plan, shape, bytes);
}

cufftResult Plan(cufftHandle* out, const Lengths& lengths, cufftType type, long long batch) {
  if (cufftResult result = CreateFft(out); result != CUFFT_SUCCESS) return result;
  std::size_t bytes = 0;
  cufftResult result = Make(*out, lengths, type, batch, &bytes);
  if (result != CUFFT_SUCCESS) cufftDestroy(*out);
  return result;
}

cufftResult Size(const Lengths& lengths, cufftType type, long long batch, std::size_t* out) {
  FftShape shape;
  if (cufftResult result = ShapeOf(lengths, type, batch, shape); result != CUFFT_SUCCESS) return result;
  Bytes bytes = 0;
  if (cufftResult result = WorkArea(shape, bytes); result != CUFFT_SUCCESS) return result;
  if (!out) return CUFFT_INVALID_VALUE;
  *out = static_cast<std::size_t>(bytes);
  return CUFFT_SUCCESS;
}

// By the types of data and of execution, which may be half precision.
cufftResult ShapeOf(const Lengths& lengths, cudaDataType input, cudaDataType output, cudaDataType execution,
                    long long batch, FftShape& shape) {
  shape.lengths = lengths;
  shape.batch = batch;
  switch (execution) {
    case CUDA_C_16F:
    case CUDA_C_16BF: shape.complex_bytes = 4; break;
    case CUDA_C_32F: shape.complex_bytes = 8; break;
    case CUDA_C_64F: shape.complex_bytes = 16; break;
    default: return CUFFT_INVALID_TYPE;
  }
  auto is_real = [](cudaDataType type) {
    return type == CUDA_R_16F || type == CUDA_R_16BF || type == CUDA_R_32F || type == CUDA_R_64F;
  };
  if (is_real(input) && is_real(output)) return CUFFT_INVALID_TYPE;
  shape.is_real = is_real(input) || is_real(output);
  // Documented: half precision knows powers of two alone.
  auto is_power = [](long long n) { return n > 0 && (n & (n - 1)) == 0; };
  if (shape.complex_bytes == 4 && !std::all_of(lengths.begin(), lengths.end(), is_power)) return CUFFT_NOT_SUPPORTED;
  return CUFFT_SUCCESS;
}

}  // namespace

cufftResult cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftMakePlan1d", plan, nx, type, batch);
  return Make(plan, {nx}, type, batch, bytes);
}

cufftResult cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftMakePlan2d", plan, nx, ny, type);
  return Make(plan, {nx, ny}, type, 1, bytes);
}

cufftResult cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftMakePlan3d", plan, nx, ny, nz, type);
  return Make(plan, {nx, ny, nz}, type, 1, bytes);
}

cufftResult cufftMakePlanMany(cufftHandle plan, int rank, int* n, int*, int, int, int*, int, int, cufftType type,
                              int batch, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftMakePlanMany", plan, rank, type, batch);
  return Make(plan, Read(rank, n), type, batch, bytes);
}

cufftResult cufftMakePlanMany64(cufftHandle plan, int rank, long long* n, long long*, long long, long long, long long*,
                                long long, long long, cufftType type, long long batch, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftMakePlanMany64", plan, rank, type, batch);
  return Make(plan, Read(rank, n), type, batch, bytes);
}

cufftResult cufftXtMakePlanMany(cufftHandle handle, int rank, long long* n, long long*, long long, long long,
                                cudaDataType input, long long*, long long, long long, cudaDataType output,
                                long long batch, size_t* bytes, cudaDataType execution) {
  EBB_PHANTOM_CALL(FromCode, "cufftXtMakePlanMany", handle, rank, input, output, batch, execution);
  std::shared_ptr<FftPlan> plan = FindFft(handle);
  if (!plan) return CUFFT_INVALID_PLAN;
  Lengths lengths = Read(rank, n);
  FftShape shape;
  if (cufftResult result = ShapeOf(lengths, input, output, execution, batch, shape); result != CUFFT_SUCCESS)
    return result;
  return MakeFft(*plan, shape, bytes);
}

cufftResult cufftPlan1d(cufftHandle* plan, int nx, cufftType type, int batch) {
  EBB_PHANTOM_CALL(FromCode, "cufftPlan1d", nx, type, batch);
  return Plan(plan, {nx}, type, batch);
}

cufftResult cufftPlan2d(cufftHandle* plan, int nx, int ny, cufftType type) {
  EBB_PHANTOM_CALL(FromCode, "cufftPlan2d", nx, ny, type);
  return Plan(plan, {nx, ny}, type, 1);
}

cufftResult cufftPlan3d(cufftHandle* plan, int nx, int ny, int nz, cufftType type) {
  EBB_PHANTOM_CALL(FromCode, "cufftPlan3d", nx, ny, nz, type);
  return Plan(plan, {nx, ny, nz}, type, 1);
}

cufftResult cufftPlanMany(cufftHandle* plan, int rank, int* n, int*, int, int, int*, int, int, cufftType type,
                          int batch) {
  EBB_PHANTOM_CALL(FromCode, "cufftPlanMany", rank, type, batch);
  return Plan(plan, Read(rank, n), type, batch);
}

// What a plan would need: the same with a plan at hand and without.
cufftResult cufftEstimate1d(int nx, cufftType type, int batch, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftEstimate1d", nx, type, batch);
  return Size({nx}, type, batch, bytes);
}

cufftResult cufftEstimate2d(int nx, int ny, cufftType type, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftEstimate2d", nx, ny, type);
  return Size({nx, ny}, type, 1, bytes);
}

cufftResult cufftEstimate3d(int nx, int ny, int nz, cufftType type, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftEstimate3d", nx, ny, nz, type);
  return Size({nx, ny, nz}, type, 1, bytes);
}

cufftResult cufftEstimateMany(int rank, int* n, int*, int, int, int*, int, int, cufftType type, int batch,
                              size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftEstimateMany", rank, type, batch);
  return Size(Read(rank, n), type, batch, bytes);
}

cufftResult cufftGetSize1d(cufftHandle plan, int nx, cufftType type, int batch, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftGetSize1d", plan, nx, type, batch);
  return FindFft(plan) ? Size({nx}, type, batch, bytes) : CUFFT_INVALID_PLAN;
}

cufftResult cufftGetSize2d(cufftHandle plan, int nx, int ny, cufftType type, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftGetSize2d", plan, nx, ny, type);
  return FindFft(plan) ? Size({nx, ny}, type, 1, bytes) : CUFFT_INVALID_PLAN;
}

cufftResult cufftGetSize3d(cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftGetSize3d", plan, nx, ny, nz, type);
  return FindFft(plan) ? Size({nx, ny, nz}, type, 1, bytes) : CUFFT_INVALID_PLAN;
}

cufftResult cufftGetSizeMany(cufftHandle plan, int rank, int* n, int*, int, int, int*, int, int, cufftType type,
                             int batch, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftGetSizeMany", plan, rank, type, batch);
  return FindFft(plan) ? Size(Read(rank, n), type, batch, bytes) : CUFFT_INVALID_PLAN;
}

cufftResult cufftGetSizeMany64(cufftHandle plan, int rank, long long* n, long long*, long long, long long, long long*,
                               long long, long long, cufftType type, long long batch, size_t* bytes) {
  EBB_PHANTOM_CALL(FromCode, "cufftGetSizeMany64", plan, rank, type, batch);
  return FindFft(plan) ? Size(Read(rank, n), type, batch, bytes) : CUFFT_INVALID_PLAN;
}

cufftResult cufftXtGetSizeMany(cufftHandle plan, int rank, long long* n, long long*, long long, long long,
                               cudaDataType input, long long*, long long, long long, cudaDataType output,
                               long long batch, size_t* out, cudaDataType execution) {
  EBB_PHANTOM_CALL(FromCode, "cufftXtGetSizeMany", plan, rank, input, output, batch, execution);
  if (!FindFft(plan)) return CUFFT_INVALID_PLAN;
  Lengths lengths = Read(rank, n);
  FftShape shape;
  if (cufftResult result = ShapeOf(lengths, input, output, execution, batch, shape); result != CUFFT_SUCCESS)
    return result;
  Bytes bytes = 0;
  if (cufftResult result = WorkArea(shape, bytes); result != CUFFT_SUCCESS) return result;
  if (!out) return CUFFT_INVALID_VALUE;
  *out = static_cast<std::size_t>(bytes);
  return CUFFT_SUCCESS;
}
