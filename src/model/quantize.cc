// The tables of every way to store, and the ops that read them.
#include "model/quantize.h"

#include "model/ops.h"

namespace ebbtide::model {
namespace {

constexpr std::int64_t kBlock = 64, kOuterBlock = 256, kCodes = 16;  // nf4
constexpr std::int64_t kGroup = 128, kCodesPerWord = 8;              // gptq4

std::int64_t DivideUp(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// What a product takes beside its operands and its result, forward and backward.
struct Taken {
  Bytes forward = 0, backward = 0;
};

DType ComputeType(const Builder& b) { return b.options().dtype.value_or(DType::kFloat32); }

StoredWeight StoreNf4(Builder& b, std::int64_t in, std::int64_t out) {
  const std::int64_t blocks = DivideUp(in * out, kBlock);
  StoredWeight stored;
  stored.arguments = {{"weight", b.FrozenParameter("weight", {DivideUp(in * out, 2), 1}, DType::kUInt8)},
                      {"absmax", b.Buffer("absmax", {blocks}, DType::kUInt8)},
                      {"code", b.Buffer("quant_map", {kCodes})},
                      {"nested_absmax", b.Buffer("nested_absmax", {DivideUp(blocks, kOuterBlock)})},
                      {"offset", b.Buffer("offset", {})}};
  stored.made_anew = in * out * ItemSize(ComputeType(b));
  stored.table = blocks * ItemSize(DType::kFloat32);
  return stored;
}

StoredWeight StoreGptq4(Builder& b, std::int64_t in, std::int64_t out) {
  const std::int64_t groups = DivideUp(in, kGroup);
  StoredWeight stored;
  stored.arguments = {{"qweight", b.FrozenParameter("qweight", {DivideUp(in, kCodesPerWord), out}, DType::kInt32)},
                      {"qzeros", b.FrozenParameter("qzeros", {groups, DivideUp(out, kCodesPerWord)}, DType::kInt32)},
                      {"scales", b.Buffer("scales", {groups, out}, DType::kFloat16)},
                      {"g_idx", b.Buffer("g_idx", {in}, DType::kInt32)}};
  stored.made_anew = in * out * ItemSize(DType::kFloat16);
  return stored;
}

StoredWeight StoreInt8(Builder& b, std::int64_t in, std::int64_t out) {
  StoredWeight stored;
  stored.arguments = {{"weight", b.FrozenParameter("weight", {out, in}, DType::kInt8)},
                      {"scb", b.Buffer("SCB", {out})}};
  stored.made_anew = in * out * ItemSize(ComputeType(b));
  return stored;
}

// The product of int8 is taken of integers: the input's own codes, and sums of 32 bits. All others make the weight
// anew, in both directions.
Taken TakenBy(const Builder& b, const StoredWeight& stored, std::int64_t in, std::int64_t out, std::int64_t rows) {
  const Bytes whole = stored.made_anew + stored.table;
  if (b.options().quantize != Quantization::kInt8) return {whole, whole};
  const Bytes half = ComputeType(b) == DType::kFloat16 ? 0 : rows * in * 2;  // the input is rounded to float16 first
  return {half + rows * in + rows * 4 + rows * out * ItemSize(DType::kInt32), whole};
}

// torchao's float8 weights have no product of their own beside 16-bit inputs: the weight is made anew in 16 bits, by
// way of 32, and a plain product keeps it for backward.
TensorId Float8Linear(Builder& b, TensorId x, std::int64_t features, bool bias) {
  // No element type of ours is a float of 8 bits; a byte is as large.
  const TensorId stored = b.FrozenParameter("weight", {features, b.dim(x, -1)}, DType::kUInt8);
  const TensorId scale = b.Buffer("scale", {features, 1});
  const TensorId single = op::Cast(b, stored, DType::kFloat32);
  const TensorId scaled = op::Mul(b, single, scale);
  const TensorId weight = op::Cast(b, scaled, ComputeType(b));
  // Variables of a function that has not returned yet.
  for (const TensorId id : {single, scaled}) {
    if (id != weight) b.graph().storages[b.at(id).storage.index()].released_after = OpId(b.graph().ops.size() - 1);
  }
  return op::Linear(b, x, weight, bias ? b.FrozenParameter("bias", {features}, ComputeType(b)) : TensorId());
}

}  // namespace

bool IsQuantized(const Builder& b) {
  if (!b.options().quantize) return false;
  const std::string& layer = b.layer();
  const std::string last = layer.substr(layer.rfind('.') + 1);
  return last != "lm_head" && last != "embed_out";
}

StoredWeight StoreWeight(Builder& b, std::int64_t in, std::int64_t out) {
  switch (*b.options().quantize) {
    case Quantization::kNf4: return StoreNf4(b, in, out);
    case Quantization::kGptq4: return StoreGptq4(b, in, out);
    case Quantization::kInt8: return StoreInt8(b, in, out);
    case Quantization::kFp8: break;  // its products are plain ones
  }
  return {};
}

TensorId QuantizedLinear(Builder& b, TensorId x, std::int64_t features, bool bias) {
  if (b.options().quantize == Quantization::kFp8) return Float8Linear(b, x, features, bias);
  const std::int64_t in = b.dim(x, -1), rows = ElementCount(b.shape(x)) / in;
  const DType given = b.at(x).dtype;
  // bitsandbytes computes in the type it was told and hands back the type it was given; GPTQ computes in float16.
  const DType compute = b.options().quantize == Quantization::kGptq4 ? DType::kFloat16 : ComputeType(b);
  const StoredWeight stored = StoreWeight(b, in, features);
  const Taken taken = TakenBy(b, stored, in, features, rows);
  x = op::Cast(b, x, compute);
  Dims shape = b.shape(x);
  shape.back() = features;
  Arguments arguments = {{"input", x}};
  arguments.insert(arguments.end(), stored.arguments.begin(), stored.arguments.end());
  if (bias)
    arguments.push_back(
        {"bias", b.FrozenParameter("bias", {features}, b.options().kbit_prepare ? DType::kFloat32 : compute)});
  const char* kind = b.options().quantize == Quantization::kInt8 ? "int8_linear" : "quantized_linear";
  const TensorId out = b.CallOne(kind, std::move(arguments), {shape, compute});
  Op& op = b.graph().ops.back();
  op.flops = SaturatingMul(SaturatingMul(2 * rows, in), features);
  op.workspace = taken.forward;
  op.arguments.push_back({"backward_workspace", taken.backward});
  if (stored.table > 0) op.arguments.push_back({"table_bytes", stored.table});
  return op::Cast(b, out, given);
}

}  // namespace ebbtide::model
