// Runs a schedule on units of memory that each hold one number.
#include "tests/plan/memory_model.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace ebbtide {
namespace {

using Contents = std::uint64_t;
using sim::StepId;

Contents Mix(Contents a, Contents b) {
  Contents z = a * 0x9e3779b97f4a7c15u + b + 0x165667b19e3779f9u;
  z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9u;
  return z ^ (z >> 32);
}

StorageId StorageOf(const TrainingGraph& graph, TensorId id) { return graph.tensor(id).storage; }

// What an op reads, and what that makes of the storages it writes.
struct Doing {
  std::vector<StorageId> reads;
  std::set<StorageId> writes;
};

Doing DoingOf(const TrainingGraph& graph, OpId i, const std::set<StorageId>& existing) {
  const Op& op = graph.op(i);
  Doing out;
  for (const TensorId id : op.mutated) out.writes.insert(StorageOf(graph, id));
  for (const TensorId id : op.outputs) {
    if (!existing.contains(StorageOf(graph, id))) out.writes.insert(StorageOf(graph, id));
  }
  if (out.writes.empty() && !op.outputs.empty()) return out;  // a view touches nothing
  for (const TensorId id : op.inputs) {
    if (existing.contains(StorageOf(graph, id))) out.reads.push_back(StorageOf(graph, id));
  }
  return out;
}

class Memory {
 public:
  Memory(Bytes height, Bytes alignment)
      : units_(static_cast<std::size_t>(height / alignment) + 1, 0), alignment_(alignment) {}

  // Nothing: it lies outside, or its parts differ.
  std::optional<Contents> Read(Bytes address, Bytes bytes) const {
    if (bytes == 0) return 0;
    if (!Fits(address, bytes)) return std::nullopt;
    const Contents first = units_[static_cast<std::size_t>(address / alignment_)];
    for (Bytes at = address; at < address + bytes; at += alignment_) {
      if (units_[static_cast<std::size_t>(at / alignment_)] != first) return std::nullopt;
    }
    return first;
  }
  bool Write(Bytes address, Bytes bytes, Contents contents) {
    if (bytes == 0) return true;
    if (!Fits(address, bytes)) return false;
    for (Bytes at = address; at < address + bytes; at += alignment_)
      units_[static_cast<std::size_t>(at / alignment_)] = contents;
    return true;
  }

 private:
  bool Fits(Bytes address, Bytes bytes) const {
    return address >= 0 && address % alignment_ == 0 &&
           (address + bytes) / alignment_ < static_cast<Bytes>(units_.size());
  }
  std::vector<Contents> units_;
  Bytes alignment_;
};

class Run {
 public:
  Run(const TrainingGraph& graph, const sim::Schedule& schedule, Bytes alignment, Bytes height)
      : graph_(graph), schedule_(schedule), alignment_(alignment), memory_(height, alignment) {
    for (const StorageId s : Ids<StorageId>(graph.storages.size())) {
      if (IsPersistent(graph.storage(s).kind)) plain_[s] = Mix(s.index(), 77), existing_.insert(s);
    }
    begun_ = plain_;
    for (const OpId i : Ids<OpId>(graph.ops.size())) {
      doing_.push_back(DoingOf(graph, i, existing_));
      existing_.insert(doing_[i].writes.begin(), doing_[i].writes.end());
      const Contents result = Result(i, plain_, 0);
      for (const StorageId s : doing_[i].writes) plain_[s] = Mix(result, s.index());
      results_.push_back(result);
    }
  }

  bool GivesTheSame() {
    const StepId end = schedule_.steps.end_id();
    IdVector<OpId, int> runs(graph_.ops.size(), 0);
    for (const StepId k : Ids<StepId>(schedule_.steps.size() + 1)) {
      if (!Boundary(k)) return false;
      if (k == end) break;
      const OpId op = schedule_.steps[k];
      if (!Step(k, op, runs[op]++)) return false;
    }
    if (std::ranges::find(runs, 0) != runs.end()) return false;
    for (const auto& [s, contents] : plain_) {
      const bool lasts = IsPersistent(graph_.storage(s).kind) ||
                         std::ranges::any_of(graph_.outputs, [&](TensorId id) { return StorageOf(graph_, id) == s; });
      if (!lasts || Size(s) == 0) continue;
      const auto left = std::ranges::find_if(
          schedule_.stays, [&](const sim::Stay& stay) { return stay.storage == s && stay.to == end; });
      if (left == schedule_.stays.end() || memory_.Read(left->address, Size(s)) != contents) return false;
    }
    return true;
  }

 private:
  Bytes Round(Bytes bytes) const { return (bytes + alignment_ - 1) / alignment_ * alignment_; }
  Bytes Size(StorageId s) const { return Round(graph_.storage(s).bytes); }

  // State that an op changes: when it runs again it is given what it found the first time, and leaves the state alone.
  bool IsGivenBack(OpId op, StorageId s) const {
    return doing_[op].writes.contains(s) && IsPersistent(graph_.storage(s).kind);
  }
  Contents Result(OpId op, const std::map<StorageId, Contents>& contents, int run) const {
    Contents out = Mix(op.index(), graph_.op(op).deterministic ? 0 : static_cast<Contents>(run));
    for (const StorageId s : doing_[op].reads) {
      if (Size(s) > 0) out = Mix(out, contents.at(s));
    }
    return out;
  }

  bool Boundary(StepId k) {
    for (const sim::Stay& stay : schedule_.stays) {
      if (stay.end != sim::End::kCopyOut) continue;
      // A copy may read at its beginning, or at its end.
      if (stay.leave == k) host_[stay.storage] = memory_.Read(stay.address, Size(stay.storage));
    }
    for (const sim::Stay& stay : schedule_.stays) {
      if (stay.to != k || stay.end != sim::End::kCopyOut) continue;
      const auto late = memory_.Read(stay.address, Size(stay.storage));
      if (host_[stay.storage] != late) host_[stay.storage] = std::nullopt;
    }
    for (const sim::Stay& stay : schedule_.stays) {
      // A copy that nobody waited for may be written after its memory has another owner.
      if (stay.to == k && coming_.contains(stay.storage)) return false;
    }
    for (const sim::Stay& stay : schedule_.stays) {
      if (stay.from != k) continue;
      here_[stay.storage] = &stay;
      if (stay.begin == sim::Begin::kPresent) {
        if (k != StepId(0) || !begun_.contains(stay.storage)) return false;
        memory_.Write(stay.address, Size(stay.storage), begun_.at(stay.storage));
      } else if (stay.begin == sim::Begin::kCopyIn) {
        if (!host_.contains(stay.storage) || !host_[stay.storage]) return false;
        coming_[stay.storage] = *host_[stay.storage];
        memory_.Write(stay.address, Size(stay.storage), coming_[stay.storage]);
      }
    }
    return true;
  }

  bool Step(StepId k, OpId op, int run) {
    const Doing& doing = doing_[op];
    std::map<StorageId, Contents> contents;
    for (const StorageId s : doing.reads) {
      const sim::Stay* stay = Here(s, k);
      if (Size(s) == 0) {
        coming_.erase(s);
        continue;
      }
      if (!stay) return false;
      if (coming_.contains(s)) memory_.Write(stay->address, Size(s), coming_[s]), coming_.erase(s);
      auto found = memory_.Read(stay->address, Size(s));
      if (IsGivenBack(op, s)) found = run == 0 ? found_[{op, s}] = found : found_[{op, s}];
      if (!found) return false;
      contents[s] = *found;
    }
    const Bytes workspace = k < schedule_.workspace_address.end_id() ? schedule_.workspace_address[k] : -1;
    const Bytes own = Round(graph_.op(op).workspace);
    if (own > 0 && !memory_.Write(workspace, own, Mix(k.index(), 99))) return false;
    const Contents result = Result(op, contents, run);
    // The first run is what counts: it must read what it reads in the plain step.
    if (run == 0 && result != results_[op]) return false;
    Bytes beside = own;
    for (const StorageId s : doing.writes) {
      if (Size(s) == 0 || (run > 0 && IsGivenBack(op, s))) continue;
      const sim::Stay* stay = Here(s, k);
      const bool is_new = std::ranges::find(doing.reads, s) == doing.reads.end();
      const bool begins = stay && stay->from == k && stay->begin != sim::Begin::kCopyIn;
      if (is_new && !begins) {
        if (run == 0) return false;
        if (!memory_.Write(workspace + beside, Size(s), Mix(k.index(), 98))) return false;
        beside += Size(s);
        continue;
      }
      if (!stay || !memory_.Write(stay->address, Size(s), Mix(result, s.index()))) return false;
    }
    return true;
  }

  const sim::Stay* Here(StorageId s, StepId k) const {
    const auto found = here_.find(s);
    return found != here_.end() && found->second->from <= k && k < found->second->to ? found->second : nullptr;
  }

  const TrainingGraph& graph_;
  const sim::Schedule& schedule_;
  const Bytes alignment_;
  Memory memory_;
  IdVector<OpId, Doing> doing_;
  IdVector<OpId, Contents> results_;     // in the plain step
  std::map<StorageId, Contents> plain_;  // what the plain step leaves
  std::map<StorageId, Contents> begun_;  // what there is before it
  std::set<StorageId> existing_;
  std::map<StorageId, const sim::Stay*> here_;
  std::map<StorageId, std::optional<Contents>> host_;
  std::map<std::pair<OpId, StorageId>, std::optional<Contents>> found_;  // by the first run of an op
  std::map<StorageId, Contents> coming_;  // copies to the device that nobody has waited for
};

}  // namespace

bool GivesTheSame(const TrainingGraph& graph, const sim::Schedule& schedule, Bytes alignment, Bytes height) {
  return Run(graph, schedule, alignment, height).GivesTheSame();
}

}  // namespace ebbtide
