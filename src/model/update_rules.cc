// One row per optimizer.
//
//   state   optimizer state per parameter, shaped like it; ":row" and ":col" are that shape with one element along the
//           last or the last but one axis, ":blocks" has an element per 256 of the parameter's, ":low" and ":basis" are
//           GaLore's (rank 128). "/u8" and "/f32" say the type where it is not the parameter's; "@host" is state that
//           bitsandbytes keeps in paged memory. "matrix" rows hold for parameters of two axes and more, "vector" rows
//           for the rest, "large" and "small" ones from 4,096 elements on and below, where an optimizer treats them
//           apart.
//   single  the calls for one parameter (CPU); `name = kernel(...)` makes a temporary, a trailing '_' changes the first
//           operand, those of a whole update (_fused..., optimizer_...) all but grad. A temporary lives until its last
//           use.
//   multi   the calls of the multi-tensor path (CUDA's default), each over all parameters: kernel stands for
//           _foreach_kernel. "": the optimizer has no such default, `single` runs on CUDA too.
// Steady state: the first step's creation of state is not part of the graph.
#include "model/update_rules.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <optional>
#include <utility>

#include "model/ops.h"
#include "model/patterns.h"

namespace ebbtide::model {

namespace {

enum class Rank { kAny, kMatrix, kVector, kLarge, kSmall };

struct Row {
  const char* name;
  Rank rank;
  const char* state;
  const char* single;
  const char* multi;
};

// clang-format off
constexpr Row kTable[] = {
    {"sgd", Rank::kAny, "",
     "add_(param, grad)",
     "add_(param, grad)"},
    {"momentum", Rank::kAny, "momentum_buffer",
     "mul_(momentum_buffer); add_(momentum_buffer, grad); add_(param, momentum_buffer)",
     "mul_(momentum_buffer); add_(momentum_buffer, grad); add_(param, momentum_buffer)"},
    {"adam", Rank::kAny, "exp_avg exp_avg_sq",
     "lerp_(exp_avg, grad); mul_(exp_avg_sq); addcmul_(exp_avg_sq, grad); root = sqrt(exp_avg_sq); denom = div(root); "
     "add_(denom); addcdiv_(param, exp_avg, denom)",
     "lerp_(exp_avg, grad); mul_(exp_avg_sq); addcmul_(exp_avg_sq, grad); denom = sqrt(exp_avg_sq); div_(denom); "
     "add_(denom); addcdiv_(param, exp_avg, denom)"},
    {"adamw", Rank::kAny, "exp_avg exp_avg_sq",
     "mul_(param); lerp_(exp_avg, grad); mul_(exp_avg_sq); addcmul_(exp_avg_sq, grad); root = sqrt(exp_avg_sq); "
     "denom = div(root); add_(denom); addcdiv_(param, exp_avg, denom)",
     "mul_(param); lerp_(exp_avg, grad); mul_(exp_avg_sq); addcmul_(exp_avg_sq, grad); denom = sqrt(exp_avg_sq); "
     "div_(denom); add_(denom); addcdiv_(param, exp_avg, denom)"},
    {"rmsprop", Rank::kAny, "square_avg",
     "mul_(square_avg); addcmul_(square_avg, grad); avg = sqrt(square_avg); add_(avg); addcdiv_(param, grad, avg)",
     "mul_(square_avg); addcmul_(square_avg, grad); avg = sqrt(square_avg); add_(avg); addcdiv_(param, grad, avg)"},
    {"adagrad", Rank::kAny, "sum",
     "addcmul_(sum, grad); std = sqrt(sum); add_(std); addcdiv_(param, grad, std)",
     "addcmul_(sum, grad); std = sqrt(sum); add_(std); numerator = mul(grad); addcdiv_(param, numerator, std)"},
    {"adafactor", Rank::kMatrix, "row_var:row col_var:col",
     "row_mean:row = linalg_vector_norm(grad); square_(row_mean); div_(row_mean); lerp_(row_var, row_mean); "
     "col_mean:col = linalg_vector_norm(grad); square_(col_mean); div_(col_mean); lerp_(col_var, col_mean); "
     "update = matmul(row_var, col_var); div_(update, row_var); clamp_(update); rsqrt_(update); mul_(update, grad); "
     "add_(param, update)",
     ""},
    {"adafactor", Rank::kVector, "variance",
     "squared = mul(grad); lerp_(variance, squared); update = clone(variance); clamp_(update); rsqrt_(update); "
     "mul_(update, grad); add_(param, update)",
     ""},
    // torch.optim.AdamW(fused=True): one kernel, no temporaries.
    {"adamw-fused", Rank::kAny, "exp_avg exp_avg_sq",
     "_fused_adamw_(param, grad, exp_avg, exp_avg_sq)",
     "_fused_adamw_(param, grad, exp_avg, exp_avg_sq)"},
    // bitsandbytes 0.44 to 0.49: AdamW8bit, PagedAdamW8bit, Lion. Small parameters keep floats.
    {"adamw-8bit", Rank::kLarge, "state1/u8 state2/u8 absmax1:blocks/f32 absmax2:blocks/f32",
     "optimizer_update_8bit_blockwise_(param, grad, state1, state2, absmax1, absmax2)", ""},
    {"adamw-8bit", Rank::kSmall, "state1/f32 state2/f32", "optimizer_update_32bit_(param, grad, state1, state2)", ""},
    {"adamw-paged", Rank::kLarge, "state1/u8@host state2/u8@host absmax1:blocks/f32 absmax2:blocks/f32",
     "optimizer_update_8bit_blockwise_(param, grad, state1, state2, absmax1, absmax2)", ""},
    {"adamw-paged", Rank::kSmall, "state1/f32 state2/f32", "optimizer_update_32bit_(param, grad, state1, state2)", ""},
    {"lion", Rank::kAny, "state1/f32", "optimizer_update_32bit_(param, grad, state1)", ""},
    // torch.optim.Muon for matrices; AdamW, as its users pair it, for the rest.
    {"muon", Rank::kMatrix, "momentum_buffer",
     "lerp_(momentum_buffer, grad); update = lerp(grad, momentum_buffer); ortho/bf16 = _to_copy(update); "
     "norm:one = linalg_vector_norm(ortho); div_(ortho, norm); gram:gram/bf16 = matmul(ortho); "
     "square:gram/bf16 = matmul(gram); next/bf16 = matmul(ortho, square); add_(param, next)", ""},
    {"muon", Rank::kVector, "exp_avg exp_avg_sq",
     "mul_(param); lerp_(exp_avg, grad); mul_(exp_avg_sq); addcmul_(exp_avg_sq, grad); root = sqrt(exp_avg_sq); "
     "denom = div(root); add_(denom); addcdiv_(param, exp_avg, denom)", ""},
    // galore-torch 1.0: state in the space of a projection, which a decomposition renews now and then.
    {"galore", Rank::kMatrix, "ortho_matrix:basis exp_avg:low exp_avg_sq:low",
     "linalg_svd_(ortho_matrix, grad); low:low = matmul(grad, ortho_matrix); mul_(exp_avg); add_(exp_avg, low); mul_(exp_avg_sq); "
     "addcmul_(exp_avg_sq, low); root:low = sqrt(exp_avg_sq); denom:low = add(root); norm:low = div(exp_avg, denom); "
     "full = matmul(norm, ortho_matrix); scaled = mul(full); add_(param, scaled)", ""},
    {"galore", Rank::kVector, "exp_avg exp_avg_sq",
     "mul_(exp_avg); add_(exp_avg, grad); mul_(exp_avg_sq); addcmul_(exp_avg_sq, grad); root = sqrt(exp_avg_sq); "
     "denom = add(root); norm = div(exp_avg, denom); add_(param, norm)", ""},
};
// clang-format on

// What TrainingArguments and people call them.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"fused", "adamw-fused"},
    {"adamw_torch_fused", "adamw-fused"},
    {"adamw_torch", "adamw"},
    {"8bit", "adamw-8bit"},
    {"8-bit", "adamw-8bit"},
    {"adamw_8bit", "adamw-8bit"},
    {"adamw_bnb_8bit", "adamw-8bit"},
    {"paged", "adamw-paged"},
    {"paged_adamw_8bit", "adamw-paged"},
    {"lion_32bit", "lion"},
    {"galore_adamw", "galore"},
};

constexpr std::int64_t kGaloreRank = 128, kBlockOf8Bits = 256, kLeast8Bits = 4096;

struct NamedShape {
  std::string name, shape;  // shape: "", "row", "col", ...
  std::optional<DType> dtype;
  bool on_host = false;
};

// name[:shape][/type][@host]
NamedShape ReadNamedShape(std::string_view text) {
  NamedShape out;
  if (text.ends_with("@host")) {
    out.on_host = true;
    text.remove_suffix(5);
  }
  if (const std::size_t slash = text.find('/'); slash != std::string_view::npos) {
    const std::string_view type = text.substr(slash + 1);
    out.dtype = type == "u8" ? DType::kUInt8 : type == "bf16" ? DType::kBFloat16 : DType::kFloat32;
    text = text.substr(0, slash);
  }
  const std::size_t colon = text.find(':');
  out.name = text.substr(0, colon);
  if (colon != std::string_view::npos) out.shape = text.substr(colon + 1);
  return out;
}

struct Statement {
  NamedShape result;  // empty name: the kernel changes its first operand
  std::string kernel;
  std::vector<std::string> operands;
};

std::vector<std::string> SplitBy(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find(separator));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.emplace_back(part);
  }
  return parts;
}

std::vector<Statement> ReadStatements(std::string_view text) {
  std::vector<Statement> statements;
  for (const std::string& part : SplitBy(text, ';')) {
    std::string_view rest = part;
    Statement statement;
    if (std::size_t equals = rest.find(" = "); equals != std::string_view::npos) {
      statement.result = ReadNamedShape(rest.substr(0, equals));
      rest.remove_prefix(equals + 3);
    }
    std::size_t open = rest.find('(');
    statement.kernel = rest.substr(0, open);
    statement.operands = SplitBy(rest.substr(open + 1, rest.size() - open - 2), ',');
    statements.push_back(std::move(statement));
  }
  return statements;
}

Dims ShapeFor(const Dims& parameter, const std::string& shape) {
  Dims out = parameter;
  if (shape == "row") out[out.size() - 1] = 1;
  if (shape == "col") out[out.size() - 2] = 1;
  if (shape == "one") return {};
  if (shape == "blocks") return {(ElementCount(parameter) + kBlockOf8Bits - 1) / kBlockOf8Bits};
  if (shape == "gram" || shape == "low" || shape == "basis") {
    const std::int64_t columns = parameter.back(), rows = ElementCount(parameter) / std::max<std::int64_t>(columns, 1);
    const std::int64_t rank = std::min({kGaloreRank, rows, columns});
    if (shape == "gram") return {std::min(rows, columns), std::min(rows, columns)};
    if (shape == "low") return rows >= columns ? Dims{rows, rank} : Dims{rank, columns};
    return rows >= columns ? Dims{rank, columns} : Dims{rows, rank};
  }
  return out;
}

// The named tensors of one parameter: param, grad, state and temporaries.
using Names = std::map<std::string, TensorId>;

// The operands that a call without a result changes.
std::vector<std::string> Changed(const Statement& statement) {
  const bool is_whole = statement.kernel.starts_with("_fused") || statement.kernel.starts_with("optimizer_");
  if (!is_whole) return {statement.operands[0]};
  std::vector<std::string> changed = statement.operands;
  std::erase(changed, "grad");
  return changed;
}

void RunSingle(Builder& b, const std::vector<Statement>& statements, Names names) {
  for (const Statement& statement : statements) {
    Arguments arguments;
    for (const std::string& operand : statement.operands) arguments.push_back({operand, names.at(operand)});
    if (statement.result.name.empty()) {
      CallOptions options;
      for (const std::string& operand : Changed(statement)) options.mutated.push_back(names.at(operand));
      b.Call(statement.kernel, std::move(arguments), {}, options);
      continue;
    }
    const Tensor& parameter = b.at(names.at("param"));
    OutputSpec spec{ShapeFor(parameter.shape, statement.result.shape),
                    statement.result.dtype.value_or(parameter.dtype)};
    names[statement.result.name] = b.CallOne(statement.kernel, std::move(arguments), spec);
  }
}

void RunMulti(Builder& b, const std::vector<Statement>& statements, std::vector<Names> all) {
  for (const Statement& statement : statements) {
    Arguments arguments;
    CallOptions options;
    for (const std::string& operand : statement.operands) {
      TensorList list;
      for (const Names& names : all) list.ids.push_back(names.at(operand));
      arguments.push_back({operand, list});
    }
    std::vector<OutputSpec> specs;
    for (const Names& names : all) {
      const Tensor& parameter = b.at(names.at("param"));
      if (statement.result.name.empty()) {
        for (const std::string& operand : Changed(statement)) options.mutated.push_back(names.at(operand));
      } else {
        specs.push_back({ShapeFor(parameter.shape, statement.result.shape), parameter.dtype});
      }
    }
    const std::string kernel = statement.kernel.starts_with('_') ? statement.kernel : "_foreach_" + statement.kernel;
    std::vector<TensorId> results = b.Call(kernel, std::move(arguments), std::move(specs), options);
    for (std::size_t i = 0; i < results.size(); ++i) all[i][statement.result.name] = results[i];
  }
}

bool Applies(const Row& row, const Dims& shape) {
  switch (row.rank) {
    case Rank::kAny: return true;
    case Rank::kMatrix: return shape.size() > 1;
    case Rank::kVector: return shape.size() <= 1;
    case Rank::kLarge: return ElementCount(shape) >= kLeast8Bits;
    case Rank::kSmall: return ElementCount(shape) < kLeast8Bits;
  }
  return false;
}

}  // namespace

std::vector<std::string> OptimizerNames() {
  std::vector<std::string> names;
  for (const Row& row : kTable) {
    if (names.empty() || names.back() != row.name) names.push_back(row.name);
  }
  return names;
}

std::string OptimizerNamed(const std::string& name) {
  for (const auto& [other, ours] : kOtherNames) {
    if (name == other) return ours;
  }
  return name;
}

Status RecordUpdate(Builder& b, const ParameterGradients& gradients, const std::string& name) {
  const std::string optimizer = OptimizerNamed(name);
  if (optimizer == "none") return {};
  if (!std::ranges::count(OptimizerNames(), optimizer)) {
    return Fail("optimizer \"{}\": expected one of {} or none", optimizer, fmt::join(OptimizerNames(), ", "));
  }
  b.set_phase(Phase::kUpdate);
  b.set_layer("");
  std::map<TensorId, TensorId> gradient_of(gradients.begin(), gradients.end());
  for (const Row& row : kTable) {
    if (row.name != optimizer) continue;
    std::vector<Names> all;
    for (TensorId parameter : b.parameters()) {  // in the order of the model, as the optimizer holds them
      auto found = gradient_of.find(parameter);
      if (found == gradient_of.end() || !Applies(row, b.shape(parameter))) continue;
      Names names = {{"param", parameter}, {"grad", found->second}};
      for (const std::string& state : SplitBy(row.state, ' ')) {
        NamedShape spec = ReadNamedShape(state);
        std::string full_name = spec.name + "." + b.graph().storage_of(parameter).name;
        names[spec.name] =
            b.State(full_name, ShapeFor(b.shape(parameter), spec.shape), spec.dtype.value_or(b.at(parameter).dtype));
        b.graph().storages[b.at(names[spec.name]).storage.index()].outside = spec.on_host;
      }
      all.push_back(std::move(names));
    }
    if (all.empty()) continue;
    if (b.on_cuda() && *row.multi) {
      RunMulti(b, ReadStatements(row.multi), std::move(all));
    } else {
      for (Names& names : all) RunSingle(b, ReadStatements(row.single), std::move(names));
    }
  }
  return {};
}

namespace {

// Later stages add up bytes and FLOPs without checking.
Status CheckSums(const TrainingGraph& graph) {
  Bytes bytes = 0;
  for (const Storage& storage : graph.storages) bytes = std::min(kTooLarge, bytes + storage.bytes);
  std::int64_t flops = 0;
  for (const Op& op : graph.ops) flops = std::min(kTooLarge, flops + op.flops);
  if (bytes < kTooLarge && flops < kTooLarge) return {};
  return Fail("{}: the step would take more than 2^60 bytes or operations; expected smaller sizes", graph.name);
}

// torch.amp.GradScaler, for gradients too small for float16: the loss times a number, the gradients divided by it.
bool IsScaled(const Builder& b) { return b.options().autocast == DType::kFloat16; }

TensorId Scaled(Builder& b, TensorId loss, TensorId scale) {
  if (!IsScaled(b)) return loss;
  b.set_layer("");
  return op::Mul(b, loss, scale);
}

// Forward is recorded; backward follows, and both again for every further batch. All batches are in the same place: the
// next one is loaded when the last is done with. `loss` becomes that of the last pass.
ParameterGradients RecordPasses(Builder& b, TensorId& loss) {
  const std::int64_t passes = b.options().accumulate;
  const std::size_t forward_ops = b.graph().ops.size();
  const TensorId first_loss = loss;
  b.set_layer("");
  const TensorId scale = IsScaled(b) ? b.Buffer("grad_scaler.scale", {}) : TensorId();
  ParameterGradients gradients;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    std::size_t begin = 0;
    const TensorId last_loss = loss;
    b.set_phase(Phase::kForward);
    if (pass > 0) {
      begin = b.graph().ops.size();
      loss = b.Repeat(0, forward_ops).at(first_loss);
    }
    if (passes > 1) {  // the mean over all batches
      b.set_layer("");
      loss = op::WithScalar(b, "div", loss, static_cast<double>(passes));
    }
    // The variable of the training loop refers to the last loss, and that to autograd's graph, until it gets this one.
    if (pass > 0) b.graph().outputs.push_back(last_loss);
    for (TensorId id : std::exchange(b.graph().outputs, {})) {
      b.graph().storages[b.at(id).storage.index()].released_after = OpId(b.graph().ops.size() - 1);
    }
    gradients = RecordBackward(b, Scaled(b, loss, scale), begin, gradients);
  }
  return gradients;
}

void RecordUnscaling(Builder& b, const ParameterGradients& gradients) {
  if (!IsScaled(b) || b.options().optimizer == "none") return;
  b.set_phase(Phase::kUpdate);
  b.set_layer("");
  TensorList all;
  for (auto [parameter, gradient] : gradients) all.ids.push_back(gradient);
  TensorId found_inf = op::Fill(b, "full", {}), inverse = op::Fill(b, "reciprocal", {});
  std::vector<TensorId> mutated = all.ids;
  mutated.push_back(found_inf);
  b.Call("_amp_foreach_non_finite_check_and_unscale_",
         {{"self", all}, {"found_inf", found_inf}, {"inv_scale", inverse}}, {}, {.mutated = mutated});
}

// torch.nn.utils.clip_grad_norm_: a norm per gradient, the norm of those, and all gradients scaled in place.
void RecordClipping(Builder& b, const ParameterGradients& gradients) {
  if (!b.options().clip || gradients.empty()) return;
  b.set_phase(Phase::kUpdate);
  b.set_layer("");
  std::map<DType, TensorList> by_type;
  for (auto [parameter, gradient] : gradients) by_type[b.at(gradient).dtype].ids.push_back(gradient);
  std::vector<TensorId> norms;
  for (const auto& [dtype, all] : by_type) {
    const std::vector<OutputSpec> scalars(all.ids.size(), OutputSpec{{}, dtype});
    for (TensorId norm : b.Call("_foreach_norm", {{"self", all}}, scalars)) norms.push_back(norm);
  }
  const DType dtype = b.at(norms[0]).dtype;
  TensorId stacked = b.CallOne("stack", {{"tensors", TensorList{norms}}, {"dim", std::int64_t{0}}},
                               {{static_cast<std::int64_t>(norms.size())}, dtype});
  TensorId total = b.CallOne("linalg_vector_norm", {{"self", stacked}}, {{}, dtype});
  TensorId scale = op::WithScalar(b, "mul", op::Unary(b, "reciprocal", op::WithScalar(b, "add", total, 1e-6)), 1);
  scale = b.CallOne("clamp", {{"self", scale}}, {{}, dtype});
  for (const auto& [type, all] : by_type) {
    b.Call("_foreach_mul_", {{"self", all}, {"other", scale}}, {}, {.mutated = all.ids});
  }
}

}  // namespace

Result<TrainingGraph> FinishStep(Builder builder, TensorId loss, const ModelOptions& options) {
  if (builder.error()) return Within(builder.graph().name, *builder.error());
  ParameterGradients gradients;
  builder.EndForward();
  if (Status status = CheckChoices(builder); !status) return Within(builder.graph().name, status.error());
  if (!options.inference) {
    gradients = RecordPasses(builder, loss);
    RecordUnscaling(builder, gradients);
    RecordClipping(builder, gradients);
    EBB_RETURN_IF_ERROR(RecordUpdate(builder, gradients, options.optimizer));
  }
  AssignStorageKinds(builder, gradients);
  TrainingGraph graph = std::move(builder.graph());
  for (TensorId id : graph.outputs) {
    graph.storages[graph.tensor(id).storage.index()].released_after = OpId(graph.ops.size() - 1);
  }
  graph.outputs = {loss};
  graph.framework = Framework::kPytorch;
  graph.makes_state_early = !options.inference && options.optimizer == "adagrad";
  graph.meta["framework"] = "pytorch";
  graph.meta["optimizer"] = options.inference ? "none" : OptimizerNamed(options.optimizer);
  if (options.autocast) graph.meta["autocast"] = Name(*options.autocast);
  if (options.inference) graph.meta["step"] = "inference";
  if (!options.freeze.empty()) graph.meta["freeze"] = fmt::format("{}", fmt::join(options.freeze, " "));
  if (options.lora) graph.meta["lora"] = std::to_string(*options.lora);
  if (options.accumulate > 1) graph.meta["accumulate"] = std::to_string(options.accumulate);
  if (options.checkpoint) graph.meta["checkpoint"] = options.checkpoint->empty() ? "blocks" : *options.checkpoint;
  graph.meta["batch_size"] = std::to_string(options.batch_size);
  EBB_RETURN_IF_ERROR(CheckSums(graph));
  return graph;
}

}  // namespace ebbtide::model
