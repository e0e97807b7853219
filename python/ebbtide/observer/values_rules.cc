// What is known of operators, from their schemas and the tables here.
#include <unordered_map>
#include <unordered_set>

#include "operators.h"
#include "values.h"

namespace ebbtide_observer {
namespace {

using Names = std::unordered_set<std::string>;

// Overwrite their first argument without reading it.
const Names kReplacing = {"copy_",       "fill_",          "zero_",         "normal_",    "uniform_",
                          "random_",     "bernoulli_",     "exponential_",  "geometric_", "cauchy_",
                          "log_normal_", "_foreach_copy_", "_foreach_zero_"};

// Their kernels are made of other operators on what they are given, as far as sizes and copies to the host go.
const Names kTransparent = {"index",
                            "index_put_",
                            "index_put",
                            "_index_put_impl_",
                            "_unsafe_index",
                            "_unsafe_index_put",
                            "masked_select",
                            "copy_",
                            "_to_copy",
                            "clone",
                            "item",
                            "_foreach_copy_",
                            "_linalg_check_errors"};

// Parts of names of operators whose work grows faster than their bytes.
const char* const kHeavy[] = {"mm",      "matmul", "conv",  "attention", "rnn",        "lstm",
                              "gru",     "linalg", "cdist", "bilinear",  "cholesky",   "svd",
                              "inverse", "lstsq",  "solve", "ctc_loss",  "_trilinear", "einsum"};

const std::unordered_map<std::string, Border> kBorders = {
    {"argmax", Border::kIndices},
    {"argmin", Border::kIndices},
    {"argsort", Border::kIndices},
    {"sort", Border::kValuesAndIndices},
    {"topk", Border::kValuesAndIndices},
    {"max", Border::kValuesAndIndices},
    {"min", Border::kValuesAndIndices},
    {"mode", Border::kValuesAndIndices},
    {"median", Border::kValuesAndIndices},
    {"nanmedian", Border::kValuesAndIndices},
    {"kthvalue", Border::kValuesAndIndices},
    {"cummax", Border::kValuesAndIndices},
    {"cummin", Border::kValuesAndIndices},
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
    {"linalg_cholesky_ex", Border::kInfo},
    {"linalg_inv_ex", Border::kInfo},
    {"linalg_ldl_factor_ex", Border::kInfo},
    {"linalg_lu_factor_ex", Border::kInfo},
    {"_linalg_solve_ex", Border::kInfo},
    {"_lu_with_info", Border::kInfo},
    {"native_dropout", Border::kNoMask},
    {"_fused_dropout", Border::kNoMask}};

const std::unordered_map<std::string, Sizes> kSizes = {{"aten::nonzero", Sizes::kNonzero},
                                                       {"aten::masked_select", Sizes::kMaskedSelect},
                                                       {"aten::_unique", Sizes::kUnique},
                                                       {"aten::_unique2", Sizes::kUnique},
                                                       {"aten::unique_consecutive", Sizes::kConsecutive},
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

Rule Make(const c10::OperatorName& name) {
  Rule rule;
  const auto facts = FactsOf(name);
  if (!facts) return rule;
  rule.name = name.name;
  const std::string &space = facts->space, &base = facts->base;
  rule.is_aten = space == "aten";
  if (space == "prim" || space == "profiler" || space == "prims" || facts->leaves_contents || facts->is_view)
    return rule;
  rule.fresh = facts->fresh;
  const bool finite_test = base == "isfinite";  // made of comparisons, which would be taken for masks
  if (!facts->own_kernel && !facts->shared_kernel && !finite_test) return rule;
  rule.mutates = facts->mutates;
  for (size_t i = 0; i < rule.mutates.size(); ++i) {
    rule.replaces.push_back(rule.mutates[i] && ((i == 0 && kReplacing.count(base) > 0) || facts->is_out[i]));
    rule.mutates_any = rule.mutates_any || rule.mutates[i];
  }
  rule.handle = facts->handle;
  rule.makes_nothing = facts->makes_nothing;
  rule.reads = facts->reads;
  rule.on_cpu = facts->handle.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  rule.transparent = !rule.is_aten || kTransparent.count(base) > 0;
  for (const char* part : kHeavy) rule.heavy = rule.heavy || base.find(part) != std::string::npos;
  if (base.find("comm") != std::string::npos) rule.heavy = false;
  rule.is_random = facts->handle.hasTag(at::Tag::nondeterministic_seeded);
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
