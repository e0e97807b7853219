// Names of layouts, and which make sense.
#include "parallel/layout.h"

#include <algorithm>

namespace ebbtide::parallel {
namespace {

const char* NameOf(DataParallel data) {
  switch (data) {
    case DataParallel::kNone: return "";
    case DataParallel::kDdp: return "ddp";
    case DataParallel::kFsdp1: return "fsdp1";
    case DataParallel::kFsdp2: return "fsdp2";
    case DataParallel::kZero1: return "zero 1";
    case DataParallel::kZero2: return "zero 2";
    case DataParallel::kZero3: return "zero 3";
  }
  return "";
}

}  // namespace

std::string Describe(const Layout& layout) {
  std::string axes;
  const auto add = [&](const std::string& axis) { axes += (axes.empty() ? "" : ", ") + axis; };
  if (layout.data != DataParallel::kNone) add(fmt::format("{} over {}", NameOf(layout.data), layout.data_ranks()));
  if (layout.tp > 1) add(fmt::format("tp {}", layout.tp));
  if (layout.pp > 1) add(fmt::format("pp {}", layout.pp));
  if (layout.cp > 1) add(fmt::format("cp {}", layout.cp));
  return fmt::format("{} GPUs: {}", layout.gpus, axes);
}

std::string FlagsOf(const Layout& layout) {
  std::string out;
  const auto add = [&](const std::string& flag) { out += (out.empty() ? "" : " ") + flag; };
  if (layout.tp > 1) add(fmt::format("--tp {}", layout.tp));
  if (layout.pp > 1) add(fmt::format("--pp {}", layout.pp));
  if (layout.cp > 1) add(fmt::format("--cp {}", layout.cp));
  switch (layout.data) {
    case DataParallel::kNone: break;
    case DataParallel::kDdp: add("--ddp"); break;
    case DataParallel::kFsdp1: add("--fsdp=1"); break;
    case DataParallel::kFsdp2: add("--fsdp"); break;
    case DataParallel::kZero1: add("--zero 1"); break;
    case DataParallel::kZero2: add("--zero 2"); break;
    case DataParallel::kZero3: add("--zero 3"); break;
  }
  return out;
}

std::vector<Layout> UsualLayouts(std::int64_t gpus, std::int64_t machine_gpus) {
  std::vector<Layout> out;
  const auto add = [&](std::int64_t tp, std::int64_t pp, DataParallel data) {
    Layout layout;
    layout.gpus = gpus;
    layout.tp = tp;
    layout.pp = pp;
    if (layout.data_ranks() > 1) layout.data = data;
    out.push_back(layout);
  };
  for (const DataParallel data :
       {DataParallel::kDdp, DataParallel::kFsdp2, DataParallel::kZero1, DataParallel::kZero2, DataParallel::kZero3}) {
    add(1, 1, data);
  }
  for (std::int64_t ranks = 2; ranks <= std::min(gpus, machine_gpus); ranks *= 2) {
    if (gpus % ranks == 0) add(ranks, 1, DataParallel::kFsdp2);
  }
  for (std::int64_t stages = 2; stages <= std::min<std::int64_t>(gpus, 8); stages *= 2) {
    if (gpus % stages == 0) add(1, stages, DataParallel::kDdp);
  }
  return out;
}

Status CheckLayout(const Layout& layout) {
  if (layout.gpus < 1) return Fail("--gpus {}: expected at least 1", layout.gpus);
  for (const auto& [flag, ranks] : {std::pair("--tp", layout.tp), {"--pp", layout.pp}, {"--cp", layout.cp}}) {
    if (ranks < 1 || ranks > layout.gpus) {
      return Fail("{} {}: expected a number from 1 to --gpus, {}", flag, ranks, layout.gpus);
    }
  }
  const std::int64_t model_ranks = layout.tp * layout.pp * layout.cp;
  if (layout.gpus % model_ranks != 0) {
    return Fail("--gpus {}: expected a multiple of --tp times --pp times --cp, {}", layout.gpus, model_ranks);
  }
  if (layout.microbatches > 0 && layout.pp == 1) return Fail("--microbatches: expected --pp beside it");
  if (layout.chunks > 1 && layout.pp == 1) return Fail("--chunks: expected --pp beside it");
  if (layout.chunks > 1 && layout.passes() % layout.pp != 0) {
    return Fail("--microbatches {}: expected a multiple of --pp, {}, where chunks are interleaved", layout.passes(),
                layout.pp);
  }
  if (layout.data_ranks() > 1 && layout.data == DataParallel::kNone) {
    return Fail("--gpus {}: expected --ddp, --fsdp or --zero: {} ranks would train models of their own", layout.gpus,
                layout.data_ranks());
  }
  if (layout.IsPlain() && layout.data != DataParallel::kNone) {
    return Fail("--{}: expected --gpus with at least 2",
                layout.data == DataParallel::kDdp                                            ? "ddp"
                : layout.data == DataParallel::kFsdp1 || layout.data == DataParallel::kFsdp2 ? "fsdp"
                                                                                             : "zero");
  }
  return {};
}

}  // namespace ebbtide::parallel
