// Follows the versions of all storages through the graph's own order and through another one.
#include <map>

#include "graph/collective.h"
#include "plan/validate.h"

namespace ebbtide::plan {
namespace {

// What an op can tell of the order it is in.
struct Seen {
  std::map<StorageId, std::int64_t> versions;  // of what it touches, before it runs
  std::int64_t draws = 0, talks = 0;           // of all ops before it
  bool operator==(const Seen&) const = default;
};

class Follower {
 public:
  explicit Follower(const TrainingGraph& graph)
      : graph_(graph), version_(graph.storages.size(), 0), is_there_(graph.tensors.size(), true) {
    for (const Op& op : graph.ops) {
      for (const TensorId t : op.outputs) is_there_[t.index()] = false;
    }
  }

  // The first of its inputs that no op has yielded yet; none: all are there.
  TensorId Missing(OpId id) const {
    for (const TensorId t : graph_.op(id).inputs) {
      if (!is_there_[t.index()]) return t;
    }
    return {};
  }

  Seen Run(OpId id) {
    const Op& op = graph_.op(id);
    Seen out{.versions = {}, .draws = draws_, .talks = talks_};
    const auto see = [&](TensorId t) {
      const StorageId s = graph_.tensor(t).storage;
      out.versions[s] = version_[s.index()];
    };
    for (const TensorId t : op.inputs) see(t);
    for (const TensorId t : op.outputs) see(t);
    std::map<StorageId, bool> written;
    for (const TensorId t : op.mutated) written[graph_.tensor(t).storage] = true;
    for (const TensorId t : op.outputs) {
      const StorageId s = graph_.tensor(t).storage;
      if (version_[s.index()] == 0 && !IsPersistent(graph_.storage(s).kind)) written[s] = true;
      is_there_[t.index()] = true;
    }
    for (const auto& [s, is_written] : written) ++version_[s.index()];
    draws_ += op.random ? 1 : 0;
    talks_ += MovedBytes(op) > 0 ? 1 : 0;
    // Only those that draw and talk can tell.
    if (!op.random) out.draws = 0;
    if (MovedBytes(op) == 0) out.talks = 0;
    return out;
  }

 private:
  const TrainingGraph& graph_;
  std::vector<std::int64_t> version_;
  std::vector<bool> is_there_;
  std::int64_t draws_ = 0, talks_ = 0;
};

}  // namespace

Status ValidateOrder(const TrainingGraph& graph, std::span<const OpId> order) {
  const std::size_t ops = graph.ops.size();
  if (order.size() != ops) return Fail("order: expected {} ops, found {}", ops, order.size());
  std::vector<Seen> expected;
  std::vector<std::size_t> part;  // of the graph, by changes of phase
  Follower own(graph);
  for (std::size_t i = 0; i < ops; ++i) {
    expected.push_back(own.Run(OpId(i)));
    const bool is_new = i > 0 && graph.ops[i].phase != graph.ops[i - 1].phase;
    part.push_back(i == 0 ? 0 : part.back() + (is_new ? 1 : 0));
  }
  std::vector<bool> has_run(ops, false);
  Follower other(graph);
  std::vector<std::size_t> place(ops);
  for (std::size_t i = 0; i < ops; ++i) {
    const OpId op = order[i];
    if (!op.valid() || op.index() >= ops) return Fail("order: the graph has no op {}", op.value);
    if (has_run[op.index()]) return Fail("order: op {} comes twice", op.value);
    has_run[op.index()] = true;
    place[op.index()] = i;
    if (part[op.index()] != part[i]) return Fail("order: op {} leaves its phase", op.value);
    if (const TensorId t = other.Missing(op); t.valid())
      return Fail("order: op {} comes before tensor {} is there", op.value, t.value);
    if (other.Run(op) != expected[op.index()])
      return Fail("order: op {} ({}) does not find what it finds in the graph's order", op.value, graph.op(op).kind);
  }
  // What is let go of is not touched any more.
  for (std::size_t i = 0; i < ops; ++i) {
    const Op& op = graph.ops[i];
    for (const auto& list : {op.inputs, op.outputs}) {
      for (const TensorId t : list) {
        const OpId after = graph.storage_of(t).released_after;
        if (after.valid() && place[i] > place[after.index()])
          return Fail("order: op {} comes behind op {}, which lets go of what it needs", i, after.value);
      }
    }
  }
  return {};
}

}  // namespace ebbtide::plan
