// What is known of operators, from their schemas and the tables here.
#include <ATen/core/dispatch/Dispatcher.h>

#include <unordered_map>
#include <unordered_set>

#include "values.h"

namespace ebbtide_observer {
namespace {

using Names = std::unordered_set<std::string>;

// Operators with a kernel of their own that leave contents alone, or that change what a tensor is and not its bytes.
const Names kNothing = {"_unsafe_view",
                        "record_stream",
                        "set_",
                        "set_data",
                        "resize_",
                        "resize_as_",
                        "_resize_output_",
                        "transpose_",
                        "t_",
                        "squeeze_",
                        "unsqueeze_",
                        "as_strided_",
                        "swapaxes_",
                        "swapdims_",
                        "detach_",
                        "_has_same_storage_numel",
                        "is_same_size",
                        "_pin_memory",
                        "is_pinned",
                        "requires_grad_",
                        "retain_grad",
                        "_assert_async",
                        "is_set_to",
                        "_version",
                        "is_leaf",
                        "output_nr",
                        "sym_size",
                        "sym_numel",
                        "sym_stride",
                        "sym_storage_offset",
                        "_reshape_alias",
                        "lift_fresh",
                        "data"};

// Overwrite their first argument without reading it.
const Names kReplacing = {"copy_",       "fill_",          "zero_",         "normal_",    "uniform_",
                          "random_",     "bernoulli_",     "exponential_",  "geometric_", "cauchy_",
                          "log_normal_", "_foreach_copy_", "_foreach_zero_"};

// Their kernels are made of other operators on what they are given, as far as sizes and copies to the host go.
const Names kTransparent = {"index",         "index_put_",
                            "index_put",     "_index_put_impl_",
                            "_unsafe_index", "_unsafe_index_put",
                            "masked_select", "copy_",
                            "_to_copy",      "clone",
                            "item",          "_foreach_copy_"};

// Parts of names of operators whose work grows faster than their bytes.
const char* const kHeavy[] = {"mm",      "matmul", "conv",  "attention", "rnn",        "lstm",
                              "gru",     "linalg", "cdist", "bilinear",  "cholesky",   "svd",
                              "inverse", "lstsq",  "solve", "ctc_loss",  "_trilinear", "einsum"};

const std::unordered_map<std::string, Border> kBorders = {
    {"argmax", Border::kIndices},
    {"argmin", Border::kIndices},
    {"argsort", Border::kIndices},
    {"sort", Border::kIndices},
    {"topk", Border::kIndices},
    {"max", Border::kIndices},
    {"min", Border::kIndices},
    {"mode", Border::kIndices},
    {"median", Border::kIndices},
    {"nanmedian", Border::kIndices},
    {"kthvalue", Border::kIndices},
    {"cummax", Border::kIndices},
    {"cummin", Border::kIndices},
    {"multinomial", Border::kIndices},
    {"searchsorted", Border::kIndices},
    {"bucketize", Border::kIndices},
    {"isfinite", Border::kFinite},
    {"isnan", Border::kNotFinite},
    {"isinf", Border::kNotFinite},
    {"isposinf", Border::kNotFinite},
    {"isneginf", Border::kNotFinite},
    {"_amp_foreach_non_finite_check_and_unscale_", Border::kScaler},
    {"_amp_non_finite_check_and_unscale_", Border::kScaler},
    {"native_dropout", Border::kNoMask},
    {"_fused_dropout", Border::kNoMask}};

const std::unordered_map<std::string, Sizes> kSizes = {{"aten::nonzero", Sizes::kNonzero},
                                                       {"aten::masked_select", Sizes::kMaskedSelect},
                                                       {"aten::_unique", Sizes::kUnique},
                                                       {"aten::_unique2", Sizes::kUnique},
                                                       {"aten::unique_consecutive", Sizes::kUnique},
                                                       {"aten::unique_dim", Sizes::kUniqueDim},
                                                       {"aten::unique_dim_consecutive", Sizes::kUniqueDim},
                                                       {"aten::repeat_interleave", Sizes::kRepeats},
                                                       {"aten::bincount", Sizes::kBincount},
                                                       {"aten::equal", Sizes::kEqual},
                                                       {"torchvision::nms", Sizes::kNms}};

// Arguments that batch norms write: running mean and variance.
const std::unordered_map<std::string, std::vector<int>> kStatistics = {{"native_batch_norm", {3, 4}},
                                                                       {"cudnn_batch_norm", {3, 4}},
                                                                       {"miopen_batch_norm", {3, 4}},
                                                                       {"batch_norm_gather_stats", {3, 4}},
                                                                       {"batch_norm_gather_stats_with_counts", {3, 4}},
                                                                       {"batch_norm_update_stats", {1, 2}}};

bool StartsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

Rule Make(const c10::OperatorName& name) {
  Rule rule;
  auto handle = c10::Dispatcher::singleton().findOp(name);
  if (!handle || !handle->hasSchema()) return rule;
  rule.name = name.name;
  const size_t colons = name.name.find("::");
  const std::string space = name.name.substr(0, colons);
  const std::string base = colons == std::string::npos ? name.name : name.name.substr(colons + 2);
  rule.is_aten = space == "aten";
  if (space == "prim" || space == "profiler" || space == "prims" || kNothing.count(base)) return rule;
  const c10::FunctionSchema& schema = handle->schema();
  for (const c10::Argument& result : schema.returns()) {
    const auto* alias = result.alias_info();
    if (alias && !alias->isWrite()) return rule;  // a view
    rule.fresh.push_back(alias == nullptr);
  }
  const bool finite_test = base == "isfinite";  // made of comparisons, which would be taken for masks
  const bool own = handle->hasKernelForDispatchKey(c10::DispatchKey::CUDA) || base == "copy_" || finite_test;
  const bool shared = handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
                      handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
  if (!own && !shared) return rule;
  const bool replaces = kReplacing.count(base) > 0;
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = arguments[i].alias_info();
    const bool mutated = alias && alias->isWrite();
    rule.mutates.push_back(mutated);
    rule.replaces.push_back(mutated && ((replaces && i == 0) || arguments[i].is_out()));
    rule.mutates_any = rule.mutates_any || mutated;
  }
  rule.handle = *handle;
  rule.makes_nothing = StartsWith(base, "empty") || StartsWith(base, "new_empty") || StartsWith(base, "_empty");
  rule.reads = !(base.size() > 5 && base.compare(base.size() - 5, 5, "_like") == 0) && !StartsWith(base, "new_");
  rule.on_cpu = handle->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  rule.transparent = !rule.is_aten || kTransparent.count(base) > 0;
  for (const char* part : kHeavy) rule.heavy = rule.heavy || base.find(part) != std::string::npos;
  if (base.find("comm") != std::string::npos) rule.heavy = false;
  rule.is_random = handle->hasTag(at::Tag::nondeterministic_seeded);
  if (auto found = kBorders.find(base); rule.is_aten && found != kBorders.end()) rule.border = found->second;
  if (auto found = kSizes.find(name.name); found != kSizes.end()) rule.sizes = found->second;
  if (auto found = kStatistics.find(base); found != kStatistics.end()) rule.statistics = found->second;
  return rule;
}

}  // namespace

const Rule& RuleOf(const c10::OperatorName& name) {
  thread_local std::unordered_map<c10::OperatorName, Rule> known;
  auto found = known.find(name);
  if (found == known.end()) found = known.emplace(name, Make(name)).first;
  return found->second;
}

int64_t LargestOf(c10::ScalarType type) {
  constexpr int64_t kMiB = 1024 * 1024;
  return c10::isIntegralType(type, true) ? 32 * kMiB : kMiB;
}

}  // namespace ebbtide_observer
