// Finds what is of other stages: parameters and gradients that are not touched here, and what follows from them.
#include "parallel/pp_update.h"

#include <algorithm>
#include <vector>

namespace ebbtide::parallel {
namespace {

bool Passes(StorageKind kind) { return kind == StorageKind::kActivation || kind == StorageKind::kTemporary; }

class StageUpdate {
 public:
  StageUpdate(Rewriter& out, const IdSet<StorageId>& touched) : out_(out), from_(out.from()) {
    for (std::size_t i = 0; i < from_.storages.size(); ++i) {
      const StorageKind kind = from_.storages[i].kind;
      const bool of_model = kind == StorageKind::kParameter || kind == StorageKind::kGradient;
      if (of_model && !touched.contains(StorageId(i))) Mark(StorageId(i));
      const bool stays = kind == StorageKind::kInput || kind == StorageKind::kBuffer;
      if (stays && !touched.contains(StorageId(i))) out_.graph().storages[i].kind = StorageKind::kTemporary;
    }
    for (std::size_t before = 0; before != marked_;) {
      before = marked_;
      for (const Op& op : from_.ops) {
        if (op.phase == Phase::kUpdate) MarkForeign(op);
      }
    }
  }

  void Run() {
    for (std::size_t i = 0; i < from_.ops.size(); ++i) {
      if (from_.ops[i].phase == Phase::kUpdate) CopyUpdate(i);
    }
  }

 private:
  void Mark(StorageId storage) { marked_ += foreign_.insert(storage) ? 1 : 0; }

  bool IsForeign(TensorId id) const { return id.valid() && foreign_.contains(from_.tensor(id).storage); }

  static std::vector<const TensorList*> ListsOf(const Op& op) {
    std::vector<const TensorList*> lists;
    for (const Argument& argument : op.arguments) {
      if (const auto* list = std::get_if<TensorList>(&argument.value)) lists.push_back(list);
    }
    return lists;
  }

  // Lists of a multi-tensor op go side by side. One result of a whole list (a stack of norms) is of all.
  static bool IsAligned(const Op& op, const std::vector<const TensorList*>& lists) {
    return !lists.empty() && (op.outputs.empty() || op.outputs.size() == lists.front()->ids.size());
  }

  void MarkForeign(const Op& op) {
    const auto mark = [&](TensorId id) {
      if (!id.valid()) return;
      const StorageKind kind = from_.storage_of(id).kind;
      if (kind == StorageKind::kOptimizerState || Passes(kind)) Mark(from_.tensor(id).storage);
    };
    const std::vector<const TensorList*> lists = ListsOf(op);
    if (lists.empty()) {
      if (std::ranges::none_of(op.inputs, [&](TensorId id) { return IsForeign(id); })) return;
      for (const TensorId id : op.outputs) mark(id);
      for (const TensorId id : op.inputs) {
        if (from_.storage_of(id).kind == StorageKind::kOptimizerState) mark(id);
      }
      return;
    }
    if (!IsAligned(op, lists)) return;
    for (std::size_t i = 0; i < lists.front()->ids.size(); ++i) {
      const auto at = [&](const TensorList* list) { return i < list->ids.size() ? list->ids[i] : TensorId(); };
      if (std::ranges::none_of(lists, [&](const TensorList* list) { return IsForeign(at(list)); })) continue;
      for (const TensorList* list : lists) mark(at(list));
      if (!op.outputs.empty()) mark(op.outputs[i]);
    }
  }

  void CopyUpdate(std::size_t old) {
    const Op& op = from_.ops[old];
    const std::vector<const TensorList*> lists = ListsOf(op);
    const bool any_foreign = std::ranges::any_of(op.inputs, [&](TensorId id) { return IsForeign(id); });
    if (any_foreign && lists.empty()) return;
    if (!lists.empty() && std::ranges::all_of(lists.front()->ids, [&](TensorId id) { return IsForeign(id); })) return;
    out_.Copy(OpId(old), [](TensorId id) { return id; });
    if (!any_foreign) return;
    Op& copy = out_.graph().ops.back();
    const auto is_foreign = [&](TensorId id) { return IsForeign(id); };
    for (auto* list : {&copy.inputs, &copy.outputs, &copy.mutated}) std::erase_if(*list, is_foreign);
    for (Argument& argument : copy.arguments) {
      if (auto* list = std::get_if<TensorList>(&argument.value)) std::erase_if(list->ids, is_foreign);
    }
  }

  Rewriter& out_;
  const TrainingGraph& from_;
  IdSet<StorageId> foreign_;  // of other stages
  std::size_t marked_ = 0;    // how many
};

}  // namespace

void CopyStageUpdate(Rewriter& out, const IdSet<StorageId>& touched) { StageUpdate(out, touched).Run(); }

}  // namespace ebbtide::parallel
