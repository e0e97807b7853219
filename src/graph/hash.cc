// What goes into a graph's hash, and in which order: any change here makes plan files void.
#include "graph/hash.h"

#include <fmt/format.h>

namespace ebbtide {

void Fingerprint::Add(std::string_view text) {
  Add(static_cast<std::int64_t>(text.size()));
  for (const char c : text) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
}

void Fingerprint::Add(std::int64_t value) {
  for (int i = 0; i < 8; ++i)
    state_ = (state_ ^ ((static_cast<std::uint64_t>(value) >> (8 * i)) & 0xff)) * 0x100000001b3u;
}

std::string Fingerprint::Hex() const { return fmt::format("{:016x}", state_); }

std::string GraphHash(const TrainingGraph& graph) {
  Fingerprint out;
  out.Add(static_cast<std::int64_t>(graph.storages.size()));
  for (const Storage& storage : graph.storages) {
    out.Add(storage.bytes);
    out.Add(static_cast<std::int64_t>(storage.kind));
    out.Add(storage.released_after.value);
    if (storage.outside) out.Add("outside");
  }
  out.Add(static_cast<std::int64_t>(graph.tensors.size()));
  for (const Tensor& tensor : graph.tensors) {
    out.Add(tensor.storage.value);
    out.Add(static_cast<std::int64_t>(tensor.dtype));
    out.Add(static_cast<std::int64_t>(tensor.shape.size()));
    for (const std::int64_t size : tensor.shape) out.Add(size);
    out.Add(tensor.offset);
  }
  const auto add_ids = [&](const std::vector<TensorId>& ids) {
    out.Add(static_cast<std::int64_t>(ids.size()));
    for (TensorId id : ids) out.Add(id.value);
  };
  for (const Op& op : graph.ops) {
    out.Add(op.kind);
    out.Add(static_cast<std::int64_t>(op.phase));
    add_ids(op.inputs);
    add_ids(op.outputs);
    add_ids(op.mutated);
    out.Add(op.workspace);
    out.Add(op.deterministic ? 1 : 0);
  }
  add_ids(graph.outputs);
  return out.Hex();
}

}  // namespace ebbtide
