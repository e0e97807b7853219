// Follows every storage through the steps of a schedule: where it is, which version of its contents it has, and at
// which addresses.
#include "plan/validate.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/collective.h"

namespace ebbtide::plan {
namespace {

using sim::Begin;
using sim::End;
using sim::Stay;
using sim::StepId;

constexpr std::int64_t kGarbage = -1;

// What one op does to storages, taken from the graph.
struct Effect {
  std::set<StorageId> reads;  // contents that must be there
  std::set<StorageId> makes;
  std::set<StorageId> changes;
};

class Validator {
 public:
  Validator(const TrainingGraph& graph, const sim::Schedule& schedule, const ValidateOptions& options)
      : graph_(graph), schedule_(schedule), options_(options) {}

  Status Run() {
    CollectEffects();
    EBB_RETURN_IF_ERROR(CheckSteps());
    EBB_RETURN_IF_ERROR(CheckStays());
    return Follow();
  }

 private:
  Bytes SizeOf(StorageId s) const { return graph_.storage(s).outside ? 0 : Round(graph_.storage(s).bytes); }
  Bytes Round(Bytes bytes) const { return (bytes + options_.alignment - 1) / options_.alignment * options_.alignment; }

  std::string Name(StorageId s) const {
    const std::string& name = graph_.storage(s).name;
    return name.empty() ? fmt::format("storage {}", s.value) : fmt::format("storage {} ({})", s.value, name);
  }
  std::string StepName(StepId k) const {
    return fmt::format("step {} (op {}, {})", k.value, schedule_.steps[k].value, graph_.op(schedule_.steps[k]).kind);
  }

  void CollectEffects() {
    IdVector<StorageId, bool> exists(graph_.storages.size());
    for (const StorageId s : exists.ids()) exists[s] = IsPersistent(graph_.storage(s).kind);
    final_version_.assign(exists.size(), 0);
    maker_.resize(exists.size());
    for (const OpId i : Ids<OpId>(graph_.ops.size())) {
      const Op& op = graph_.op(i);
      Effect effect;
      const auto storage_of = [&](TensorId id) { return graph_.tensor(id).storage; };
      for (TensorId id : op.outputs) {
        if (!exists[storage_of(id)]) effect.makes.insert(storage_of(id));
      }
      for (TensorId id : op.mutated) effect.changes.insert(storage_of(id));
      for (const StorageId s : effect.makes) effect.changes.erase(s);
      const bool is_view = !op.outputs.empty() && effect.makes.empty() && effect.changes.empty();
      if (!is_view) {
        for (TensorId id : op.inputs) effect.reads.insert(storage_of(id));
        for (const StorageId s : effect.makes) effect.reads.erase(s);
      }
      std::map<StorageId, std::int64_t> expected;
      for (const StorageId s : effect.reads) expected[s] = final_version_[s];
      for (const StorageId s : effect.changes) expected[s] = final_version_[s];
      for (const StorageId s : effect.makes) {
        exists[s] = true;
        final_version_[s] = 1;
        maker_[s] = i;
      }
      for (const StorageId s : effect.changes) ++final_version_[s];
      effects_.push_back(std::move(effect));
      expected_.push_back(std::move(expected));
    }
    for (TensorId id : graph_.outputs) outlives_.insert(graph_.tensor(id).storage);
    for (const StorageId s : exists.ids()) {
      if (IsPersistent(graph_.storage(s).kind)) outlives_.insert(s);
    }
  }

  // Every op runs, the first times are in the graph's order, and what runs again may do so.
  Status CheckSteps() {
    OpId next(0);
    const OpId end(graph_.ops.size());
    for (const StepId k : schedule_.steps.ids()) {
      const OpId op = schedule_.steps[k];
      if (!op.valid() || op >= end) return Fail("step {}: the graph has no op {}", k.value, op.value);
      if (op > next) return Fail("step {}: op {} comes before op {}", k.value, op.value, next.value);
      is_again_.push_back(op < next);
      if (op == next) ++next;
      if (is_again_.back() && !graph_.op(op).deterministic) {
        return Fail("{}: runs again, but gives other bits each time", StepName(k));
      }
      if (is_again_.back() && IsPointToPoint(graph_.op(op))) {
        return Fail("{}: runs again, but the other rank speaks once", StepName(k));
      }
    }
    if (next != end) return Fail("op {} never runs", next.value);
    return {};
  }

  Status CheckStays() {
    const StepId end = schedule_.steps.end_id();
    std::map<StorageId, const Stay*> last;
    const Stay* before = nullptr;
    for (const Stay& stay : schedule_.stays) {
      if (stay.storage.index() >= graph_.storages.size())
        return Fail("the graph has no storage {}", stay.storage.value);
      if (before && std::pair(stay.from, stay.storage) < std::pair(before->from, before->storage)) {
        return Fail("{}: its stay from step {} is out of order", Name(stay.storage), stay.from.value);
      }
      before = &stay;
      // A storage that is there before the step may have no step to be there for.
      const bool may_be_empty = end == StepId(0) && stay.from == end && stay.begin == Begin::kPresent;
      if (!stay.from.valid() || stay.to < stay.from || (stay.to == stay.from && !may_be_empty)) {
        return Fail("{}: a stay from step {} to step {} is empty", Name(stay.storage), stay.from.value, stay.to.value);
      }
      if (stay.to > end) return Fail("{}: a stay ends at step {} of {}", Name(stay.storage), stay.to.value, end.value);
      if (stay.end == End::kCopyOut && (stay.leave <= stay.from || stay.leave > stay.to)) {
        return Fail("{}: leaves at step {}, outside its stay from {} to {}", Name(stay.storage), stay.leave.value,
                    stay.from.value, stay.to.value);
      }
      if (stay.end == End::kStays && stay.to != end) {
        return Fail("{}: stays, but only to step {}", Name(stay.storage), stay.to.value);
      }
      const Stay*& previous = last[stay.storage];
      if (previous && previous->to > stay.from) {
        return Fail("{}: two stays overlap at step {}", Name(stay.storage), stay.from.value);
      }
      previous = &stay;
    }
    for (const StorageId s : outlives_) {
      if (SizeOf(s) > 0 && (!last.contains(s) || last[s]->to != end || last[s]->end != End::kStays)) {
        return Fail("{}: is not there when the step has ended", Name(s));
      }
    }
    return {};
  }

  Status Follow() {
    const StepId end = schedule_.steps.end_id();
    device_.assign(graph_.storages.size(), nullptr);
    version_.assign(graph_.storages.size(), kGarbage);
    host_.assign(graph_.storages.size(), kGarbage);
    fresh_.assign(graph_.storages.size(), false);
    for (const StorageId s : version_.ids()) {
      if (graph_.storage(s).outside) version_[s] = 0;
    }
    const std::size_t boundaries = schedule_.steps.size() + 1;
    IdVector<StepId, std::vector<const Stay*>> begins(boundaries), ends(boundaries), leaves(boundaries);
    for (const Stay& stay : schedule_.stays) {
      begins[stay.from].push_back(&stay);
      ends[stay.to].push_back(&stay);
      if (stay.end == End::kCopyOut) leaves[stay.leave].push_back(&stay);
    }
    for (const StepId k : begins.ids()) {
      for (const Stay* stay : leaves[k]) EBB_RETURN_IF_ERROR(Leave(*stay));
      for (const Stay* stay : ends[k]) EBB_RETURN_IF_ERROR(Depart(*stay, k));
      for (const Stay* stay : begins[k]) EBB_RETURN_IF_ERROR(Arrive(*stay, k));
      if (k < end) EBB_RETURN_IF_ERROR(RunStep(k));
    }
    return {};
  }

  Status Leave(const Stay& stay) {
    if (fresh_[stay.storage])
      return Fail("{}: goes back to the host before its copy was waited for", Name(stay.storage));
    if (version_[stay.storage] == kGarbage)
      return Fail("{}: is copied to the host without contents", Name(stay.storage));
    host_[stay.storage] = version_[stay.storage];
    return {};
  }

  Status Depart(const Stay& stay, StepId k) {
    const StorageId s = stay.storage;
    if (fresh_[s]) return Fail("{}: leaves at step {} while its copy may still be written", Name(s), k.value);
    if (stay.end == End::kCopyOut && host_[s] != version_[s]) {
      return Fail("{}: changes after it was copied to the host at step {}", Name(s), stay.leave.value);
    }
    if (stay.end == End::kStays && version_[s] != final_version_[s]) {
      return Fail("{}: is left with other contents than the graph gives it", Name(s));
    }
    held_ -= SizeOf(s);
    device_[s] = nullptr;
    if (!graph_.storage(s).outside) version_[s] = kGarbage;
    if (options_.needs_addresses && SizeOf(s) > 0) places_.erase(stay.address);
    return {};
  }

  Status Arrive(const Stay& stay, StepId k) {
    const StorageId s = stay.storage;
    switch (stay.begin) {
      case Begin::kPresent:
        if (!IsPersistent(graph_.storage(s).kind) || k != StepId(0)) {
          return Fail("{}: cannot be there at step {}", Name(s), k.value);
        }
        version_[s] = 0;
        break;
      case Begin::kCopyIn:
        if (host_[s] == kGarbage)
          return Fail("{}: is copied from the host, which has no copy, at step {}", Name(s), k.value);
        version_[s] = host_[s];
        fresh_[s] = true;
        break;
      case Begin::kCompute:
      case Begin::kRecompute:
        if (k >= schedule_.steps.end_id() || maker_[s] != schedule_.steps[k] ||
            is_again_[k] != (stay.begin == Begin::kRecompute)) {
          return Fail("{}: is not made at step {}", Name(s), k.value);
        }
        break;
    }
    device_[s] = &stay;
    held_ += SizeOf(s);
    return Place(stay.address, SizeOf(s), Name(s));
  }

  // Takes [address, address + bytes) unless something has a part of it.
  Status Place(Bytes address, Bytes bytes, const std::string& what) {
    if (!options_.needs_addresses || bytes == 0) return {};
    if (address < 0 || address % options_.alignment != 0)
      return Fail("{}: address {} is not a multiple of {}", what, address, options_.alignment);
    if (address > options_.budget - bytes)
      return Fail("{}: at address {} it ends beyond the budget of {} bytes", what, address, options_.budget);
    const auto next = places_.lower_bound(address);
    if (next != places_.end() && next->first < address + bytes)
      return Fail("{}: overlaps other memory at address {}", what, next->first);
    if (next != places_.begin() && std::prev(next)->second > address)
      return Fail("{}: overlaps other memory at address {}", what, address);
    places_[address] = address + bytes;
    return {};
  }

  Status RunStep(StepId k) {
    const OpId op = schedule_.steps[k];
    const Effect& effect = effects_[op];
    const bool again = is_again_[k];
    // Who executes the plan gives an op that runs again the state that it changes as it first found it, and puts back
    // what was there: what the op makes is the same, and the state does not change twice.
    const auto is_given_back = [&](StorageId s) {
      return again && effect.changes.contains(s) && IsPersistent(graph_.storage(s).kind);
    };
    for (const auto& [s, version] : expected_[op]) {
      if (!device_[s] && SizeOf(s) > 0) return Fail("{}: {} is not on the device", StepName(k), Name(s));
      fresh_[s] = false;
      if (!is_given_back(s) && graph_.storage(s).bytes > 0 && version_[s] != version) {
        return Fail("{}: {} has version {} where {} is expected", StepName(k), Name(s), version_[s], version);
      }
    }
    Bytes workspace = Round(graph_.op(op).workspace);
    for (const StorageId s : effect.makes) {
      const bool begins = device_[s] && device_[s]->from == k && device_[s]->begin != Begin::kCopyIn;
      if (begins) {
        version_[s] = 1;
      } else if (again) {
        workspace += SizeOf(s);
      } else if (SizeOf(s) > 0) {
        return Fail("{}: there is no place for {}", StepName(k), Name(s));
      }
    }
    for (const StorageId s : effect.changes) {
      if (is_given_back(s)) {
        if (effect.makes.empty()) return Fail("{}: changes {} a second time", StepName(k), Name(s));
        continue;
      }
      if (version_[s] != kGarbage) ++version_[s];
    }
    if (held_ + workspace > options_.budget) {
      return Fail("{}: takes {} bytes of a budget of {}", StepName(k), held_ + workspace, options_.budget);
    }
    if (!options_.needs_addresses || workspace == 0) return {};
    if (k >= schedule_.workspace_address.end_id()) return Fail("{}: its workspace has no address", StepName(k));
    const Bytes address = schedule_.workspace_address[k];
    EBB_RETURN_IF_ERROR(Place(address, workspace, fmt::format("workspace of {}", StepName(k))));
    places_.erase(address);
    return {};
  }

  const TrainingGraph& graph_;
  const sim::Schedule& schedule_;
  const ValidateOptions& options_;
  IdVector<OpId, Effect> effects_;
  IdVector<OpId, std::map<StorageId, std::int64_t>> expected_;  // the version of each storage it reads or changes
  IdVector<StorageId, std::int64_t> final_version_;
  IdVector<StorageId, OpId> maker_;  // none: it is there before the step
  std::set<StorageId> outlives_;
  IdVector<StepId, bool> is_again_;
  IdVector<StorageId, const Stay*> device_;           // the stay it is in
  IdVector<StorageId, std::int64_t> version_, host_;  // contents on the device, on the host
  IdVector<StorageId, bool> fresh_;                   // copied in, and no step has waited for it yet
  Bytes held_ = 0;
  std::map<Bytes, Bytes> places_;  // what is taken: begin to end
};

}  // namespace

Status Validate(const TrainingGraph& graph, const sim::Schedule& schedule, const ValidateOptions& options) {
  return Validator(graph, schedule, options).Run();
}

}  // namespace ebbtide::plan
