// Which pass comes when, as torch.distributed.pipelining.schedules has it.
#include <algorithm>

#include "parallel/pp.h"

namespace ebbtide::parallel {

std::vector<PipelineAction> PipelineOrder(const Layout& layout) {
  const std::int64_t batches = layout.passes(), chunks = layout.chunks, all = batches * chunks;
  const std::int64_t rounds = std::max<std::int64_t>(1, batches / layout.pp);
  const std::int64_t in_round = batches / rounds;  // microbatches that pass one chunk before the next is taken
  const std::int64_t behind = layout.pp - 1 - layout.stage;
  const std::int64_t warm_up = std::min(all, chunks == 1 ? behind + 1 : (chunks - 1) * in_round + 2 * behind);
  std::vector<std::int64_t> forward(static_cast<std::size_t>(chunks)), backward(static_cast<std::size_t>(chunks));
  std::vector<PipelineAction> order;
  const auto run = [&](bool is_forward, std::int64_t step) {
    const std::int64_t place = chunks == 1 ? 0 : step / in_round % chunks;
    const std::int64_t chunk = is_forward ? place : chunks - 1 - place;
    std::int64_t& next = (is_forward ? forward : backward)[static_cast<std::size_t>(chunk)];
    order.push_back({is_forward, chunk, next++});
  };
  std::int64_t forwards = 0, backwards = 0;
  for (; forwards < warm_up; ++forwards) run(true, forwards);
  // A pipeline that is full gives a microbatch back before it takes another; interleaved, it takes first.
  while (backwards < all) {
    if (chunks > 1 && forwards < all) run(true, forwards++);
    run(false, backwards++);
    if (chunks == 1 && forwards < all) run(true, forwards++);
  }
  return order;
}

}  // namespace ebbtide::parallel
