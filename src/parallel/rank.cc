// Chooses, and says of the result what it is.
#include "parallel/rank.h"

#include <algorithm>

#include "parallel/passes.h"
#include "parallel/units.h"

namespace ebbtide::parallel {
namespace {

// A unit's parameters are one flat tensor, of which autograd then has the gradient as a whole: it goes on through
// blocks that are frozen, and keeps what they need for it.
Status CheckFlatParameters(const Units& units) {
  const auto is_frozen = [](const Unit& unit) { return !unit.trained && !unit.name.empty(); };
  if (std::ranges::none_of(units.units, is_frozen)) return {};
  for (const Unit& unit : units.units) {
    if (!unit.trained) continue;
    const auto frozen =
        std::ranges::count_if(unit.parameters, [&](StorageId id) { return !units.gradient_of.contains(id); });
    if (frozen == 0) continue;
    return Fail(
        "--fsdp=1: {} of {} parameters of {} are frozen: FullyShardedDataParallel has one gradient for all of them, "
        "which "
        "is not modelled; expected --fsdp; `ebbtide dryrun --gpus` runs it",
        frozen, unit.parameters.size(), unit.name.empty() ? "what lies in no block" : unit.name);
  }
  return {};
}

}  // namespace

Result<TrainingGraph> RankGraph(TrainingGraph graph, const Layout& layout) {
  EBB_RETURN_IF_ERROR(CheckLayout(layout));
  if (layout.IsPlain()) return graph;
  if (graph.framework != Framework::kPytorch) return Fail("--gpus: expected a model that PyTorch trains");
  const bool is_sharded = layout.data != DataParallel::kNone && layout.data != DataParallel::kDdp;
  if (layout.pp > 1 && is_sharded && layout.data != DataParallel::kFsdp2 && layout.data_ranks() > 1) {
    return Fail(
        "--pp: expected --ddp or --fsdp beside it: how these shards pass several microbatches is not modelled; "
        "`ebbtide "
        "dryrun --gpus` runs it");
  }
  const bool has_several_passes = PassesOf(graph).size() > 1;
  if (layout.pp > 1 && has_several_passes) return Fail("--accumulate: of no use with --pp, expected --microbatches");
  // Heads are divided first: attention over the ranks of a sequence is that of the heads of one.
  if (layout.tp > 1) {
    EBB_ASSIGN_OR_RETURN(graph, TensorParallel(graph, layout));
  }
  if (layout.cp > 1) {
    EBB_ASSIGN_OR_RETURN(graph, ContextParallel(graph, layout));
  }
  if (layout.pp > 1) {
    EBB_ASSIGN_OR_RETURN(graph, StageOf(graph, layout));
  }
  const Units units = FindUnits(graph);
  std::size_t gradients = 0;
  for (const Storage& storage : graph.storages) gradients += storage.kind == StorageKind::kGradient ? 1 : 0;
  if (gradients != units.gradient_of.size()) {
    return Fail("--gpus: {} of {} gradients have no parameter of their name; `ebbtide dryrun --gpus` runs any model",
                gradients - units.gradient_of.size(), gradients);
  }
  if (layout.data == DataParallel::kFsdp1 && layout.data_ranks() > 1 && !layout.adapters_apart) {
    EBB_RETURN_IF_ERROR(CheckFlatParameters(units));
  }
  if (layout.reduces_each_batch && !has_several_passes) {
    return Fail("--reduce-each-batch: expected --accumulate with at least 2 beside it");
  }
  if (layout.reduces_each_batch && layout.data != DataParallel::kFsdp1 && layout.data != DataParallel::kFsdp2) {
    return Fail("--reduce-each-batch: expected --fsdp beside it");
  }
  TrainingGraph out;
  switch (layout.data_ranks() > 1 ? layout.data : DataParallel::kNone) {
    case DataParallel::kNone: out = std::move(graph); break;
    case DataParallel::kDdp: out = WithDdp(std::move(graph), layout); break;
    case DataParallel::kFsdp1:
    case DataParallel::kFsdp2: out = WithFsdp(std::move(graph), layout); break;
    case DataParallel::kZero1:
    case DataParallel::kZero2:
    case DataParallel::kZero3: out = WithZero(std::move(graph), layout); break;
  }
  out.meta["layout"] = Describe(layout);
  return out;
}

}  // namespace ebbtide::parallel
