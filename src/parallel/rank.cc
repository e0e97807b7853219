// Chooses, and says of the result what it is.
#include "parallel/rank.h"

#include "parallel/units.h"

namespace ebbtide::parallel {

Result<TrainingGraph> RankGraph(TrainingGraph graph, const Layout& layout) {
  EBB_RETURN_IF_ERROR(CheckLayout(layout));
  if (layout.IsPlain()) return graph;
  if (graph.framework != Framework::kPytorch) return Fail("--gpus: expected a model that PyTorch trains");
  if (layout.tp > 1) return Fail("--tp: a rank's share of a matrix is not modelled; `ebbtide dryrun --gpus` runs it");
  if (layout.pp > 1) return Fail("--pp: stages are not modelled; `ebbtide dryrun --gpus` runs them");
  if (layout.cp > 1) return Fail("--cp: shared sequences are not modelled; `ebbtide dryrun --gpus` runs them");
  const Units units = FindUnits(graph);
  std::size_t gradients = 0;
  for (const Storage& storage : graph.storages) gradients += storage.kind == StorageKind::kGradient ? 1 : 0;
  if (gradients != units.gradient_of.size()) {
    return Fail("--gpus: {} of {} gradients have no parameter of their name; `ebbtide dryrun --gpus` runs any model",
                gradients - units.gradient_of.size(), gradients);
  }
  // Several batches before one update: whether shards are reduced after each is the trainer's choice.
  bool in_backward = false;
  for (const Op& op : graph.ops) {
    if (op.phase == Phase::kForward && in_backward && layout.data != DataParallel::kDdp) {
      return Fail("--accumulate: expected 1 with sharded gradients; `ebbtide dryrun --gpus` runs any loop");
    }
    in_backward = in_backward || op.phase == Phase::kBackward;
  }
  TrainingGraph out;
  switch (layout.data) {
    case DataParallel::kNone: return graph;
    case DataParallel::kDdp: out = WithDdp(graph, layout); break;
    case DataParallel::kFsdp1:
    case DataParallel::kFsdp2: out = WithFsdp(graph, layout); break;
    case DataParallel::kZero1:
    case DataParallel::kZero2:
    case DataParallel::kZero3: out = WithZero(graph, layout); break;
  }
  out.meta["layout"] = Describe(layout);
  return out;
}

}  // namespace ebbtide::parallel
