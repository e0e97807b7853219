// Schemas of operators, as the observers read them.
#include "operators.h"

#include <unordered_set>

namespace ebbtide_observer {
namespace {

const std::unordered_set<std::string> kLeaveContents = {"_unsafe_view",
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

bool StartsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

}  // namespace

std::optional<OperatorFacts> FactsOf(const c10::OperatorName& name) {
  auto handle = c10::Dispatcher::singleton().findOp(name);
  if (!handle || !handle->hasSchema()) return std::nullopt;
  OperatorFacts facts{*handle};
  const size_t colons = name.name.find("::");
  facts.space = name.name.substr(0, colons);
  facts.base = colons == std::string::npos ? name.name : name.name.substr(colons + 2);
  const std::string& base = facts.base;
  const c10::FunctionSchema& schema = handle->schema();
  for (const c10::Argument& result : schema.returns()) {
    const auto* alias = result.alias_info();
    facts.is_view = facts.is_view || (alias && !alias->isWrite());
    facts.fresh.push_back(alias == nullptr);
  }
  for (const c10::Argument& argument : schema.arguments()) {
    const auto* alias = argument.alias_info();
    facts.mutates.push_back(alias && alias->isWrite());
    facts.is_out.push_back(argument.is_out());
  }
  facts.leaves_contents = kLeaveContents.count(base) > 0;
  facts.makes_nothing = StartsWith(base, "empty") || StartsWith(base, "new_empty") || StartsWith(base, "_empty");
  facts.reads = !(base.size() > 5 && base.compare(base.size() - 5, 5, "_like") == 0) && !StartsWith(base, "new_");
  facts.own_kernel = handle->hasKernelForDispatchKey(c10::DispatchKey::CUDA) || base == "copy_";
  facts.shared_kernel = handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
                        handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
  return facts;
}

}  // namespace ebbtide_observer
