// A trace of operators in order, with the storages each reads and makes, and when the last reference of each is
// dropped.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/json_fields.h"
#include "base/json_reader.h"
#include "graph/check.h"
#include "model/timed/kinds.h"
#include "model/timed/timed.h"

namespace ebbtide::model::timed {
namespace {

using Field = JsonFields::Field;

constexpr std::int64_t kLargestId = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kLargestInteger = std::numeric_limits<std::int64_t>::max();

struct TracedOp {
  std::string name;
  Nanos time = 0;
  bool backward = false;
  std::vector<StorageId> in, out;
};
struct TracedStorage {
  Bytes bytes = 0;
  bool constant = false;
};
struct Trace {
  std::string source, device;
  std::vector<TracedOp> ops;
  std::vector<TracedStorage> storages;
  std::optional<std::vector<std::vector<StorageId>>> free;  // by op
};

class TraceParser {
 public:
  explicit TraceParser(std::string_view text) : in_(text) {}

  Result<Trace> Parse() {
    ParseRoot();
    in_.End();
    if (!in_.ok()) return tl::unexpected<Error>(in_.error());
    return std::move(trace_);
  }

 private:
  void ParseRoot() {
    enum { kSource, kDevice, kOps, kStorages, kFree, kTotalTime, kPeak };
    static constexpr Field kFields[] = {{"source"}, {"device"},        {"ops", true},           {"storages", true},
                                        {"free"},   {"total_time_ns"}, {"peak_bytes_store_all"}};
    JsonFields fields(in_, kFields);
    for (int field; (field = fields.Next()) >= 0;) {
      switch (field) {
        case kSource: trace_.source = in_.String(); break;
        case kDevice: trace_.device = in_.String(); break;
        case kOps: ParseAll(trace_.ops, &TraceParser::ParseOp); break;
        case kStorages: ParseAll(trace_.storages, &TraceParser::ParseStorage); break;
        case kFree: ParseAll(trace_.free.emplace(), &TraceParser::ParseIds); break;
        case kTotalTime: in_.Integer("a number of nanoseconds", 0, kLargestInteger); break;
        case kPeak: in_.Integer("a number of bytes", 0, kLargestInteger); break;
      }
    }
  }

  TracedOp ParseOp() {
    enum { kName, kTime, kBackward, kIn, kOut };
    static constexpr Field kFields[] = {{"name", true}, {"time_ns", true}, {"bwd"}, {"in"}, {"out"}};
    TracedOp op;
    JsonFields fields(in_, kFields, "an op: an object");
    for (int field; (field = fields.Next()) >= 0;) {
      switch (field) {
        case kName: op.name = in_.String(); break;
        case kTime: op.time = in_.Integer("a whole number of nanoseconds", 0, kLargestInteger); break;
        case kBackward: op.backward = in_.Bool(); break;
        case kIn: op.in = ParseIds(); break;
        case kOut: op.out = ParseIds(); break;
      }
    }
    return op;
  }

  TracedStorage ParseStorage() {
    enum { kBytes, kConst };
    static constexpr Field kFields[] = {{"bytes", true}, {"const"}};
    TracedStorage storage;
    JsonFields fields(in_, kFields, "a storage: an object");
    for (int field; (field = fields.Next()) >= 0;) {
      switch (field) {
        case kBytes: storage.bytes = in_.Integer("a number of bytes", 0, kLargestInteger); break;
        case kConst: storage.constant = in_.Bool(); break;
      }
    }
    return storage;
  }

  std::vector<StorageId> ParseIds() {
    ids_.clear();
    in_.BeginList("a list of storages");
    while (in_.NextItem()) {
      ids_.push_back(StorageId(static_cast<std::size_t>(in_.Integer("the number of a storage", 0, kLargestId))));
    }
    return ids_;
  }

  template <class Item>
  void ParseAll(std::vector<Item>& items, Item (TraceParser::*parse)()) {
    in_.BeginList();
    while (in_.NextItem()) {
      if (in_.item() > kLargestId) return in_.FailWith(fmt::format("more than {} of these", kLargestId));
      items.push_back((this->*parse)());
    }
  }

  JsonReader in_;
  Trace trace_;
  std::vector<StorageId> ids_;  // lists leave it when their length is known
};

class TraceGraph {
 public:
  explicit TraceGraph(const Trace& trace) : trace_(trace), listed_(trace.storages.size()) {}

  Result<TrainingGraph> Build() {
    EBB_RETURN_IF_ERROR(CheckIds());
    AddStorages();
    EBB_RETURN_IF_ERROR(AddReleases());
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) EBB_RETURN_IF_ERROR(AddOp(OpId(i)));
    if (trace_.free) AddKept();
    if (!trace_.source.empty()) graph_.meta["source"] = trace_.source;
    if (!trace_.device.empty()) graph_.meta["device"] = trace_.device;
    graph_.meta["times"] = "measured";
    return std::move(graph_);
  }

 private:
  Status CheckIds() {
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
      EBB_RETURN_IF_ERROR(CheckList(trace_.ops[i].in, "ops", i, ".in"));
      EBB_RETURN_IF_ERROR(CheckList(trace_.ops[i].out, "ops", i, ".out"));
    }
    if (!trace_.free) return {};
    if (trace_.free->size() != trace_.ops.size()) {
      return Fail("free: expected a list for each of the {} ops, found {}", trace_.ops.size(), trace_.free->size());
    }
    for (std::size_t i = 0; i < trace_.free->size(); ++i) {
      EBB_RETURN_IF_ERROR(CheckList((*trace_.free)[i], "free", i, ""));
    }
    return {};
  }

  Status CheckList(const std::vector<StorageId>& ids, const char* list, std::size_t index, const char* field) {
    ++lists_;
    for (std::size_t k = 0; k < ids.size(); ++k) {
      const auto at = [&] { return fmt::format("{}[{}]{}[{}]", list, index, field, k); };
      if (ids[k].index() >= trace_.storages.size()) {
        return Fail("{}: expected the number of a storage below {}, found {}", at(), trace_.storages.size(),
                    ids[k].value);
      }
      if (std::exchange(listed_[ids[k].index()], lists_) == lists_) {
        return Fail("{}: storage {} appears twice in its list", at(), ids[k].value);
      }
    }
    return {};
  }

  void AddStorages() {
    for (const TracedStorage& storage : trace_.storages) {
      graph_.storages.push_back({.bytes = storage.bytes,
                                 .kind = storage.constant ? StorageKind::kParameter : StorageKind::kActivation,
                                 .name = {},
                                 .released_after = {}});
    }
    current_.resize(trace_.storages.size());
    reader_.resize(trace_.storages.size());
    for (std::size_t i = 0; i < trace_.storages.size(); ++i) {
      if (trace_.storages[i].constant) current_[i] = AddTensor(StorageId(i));
    }
  }

  // Constants outlive the step whatever the trace says of them; those that it drops were handed in for the step.
  Status AddReleases() {
    if (!trace_.free) return {};
    freed_.resize(trace_.storages.size());
    for (std::size_t i = 0; i < trace_.free->size(); ++i) {
      for (std::size_t k = 0; k < (*trace_.free)[i].size(); ++k) {
        const StorageId id = (*trace_.free)[i][k];
        if (freed_[id.index()].valid()) {
          return Fail("free[{}][{}]: storage {} is already free after op {}", i, k, id.value, freed_[id.index()].value);
        }
        freed_[id.index()] = OpId(i);
        Storage& storage = graph_.storages[id.index()];
        if (trace_.storages[id.index()].constant) {
          storage.kind = StorageKind::kInput;
        } else {
          storage.released_after = OpId(i);
        }
      }
    }
    return {};
  }

  Status AddOp(OpId id) {
    const TracedOp& traced = trace_.ops[id.index()];
    Op op;
    op.phase = traced.backward ? Phase::kBackward : Phase::kForward;
    op.time = traced.time;
    for (std::size_t k = 0; k < traced.in.size(); ++k) {
      const std::size_t storage = traced.in[k].index();
      if (!current_[storage].valid()) {
        return Fail("ops[{}].in[{}]: storage {} is read here, and neither const nor made by an op before", id.value, k,
                    storage);
      }
      op.inputs.push_back(current_[storage]);
      reader_[storage] = id;
    }
    for (const StorageId out : traced.out) AddOutput(traced.backward, reader_[out.index()] == id, out, op);
    if (traced.out.empty()) {
      for (const StorageId in : traced.in) op.outputs.push_back(AddTensor(in));
    }
    op.kind = KindOfTraced(traced.name, !op.mutated.empty());
    op.random = IsRandomKind(op.kind);
    graph_.ops.push_back(std::move(op));
    return {};
  }

  // A storage that an op is given and makes is one that it changes.
  void AddOutput(bool backward, bool given, StorageId id, Op& op) {
    if (given) {
      op.mutated.push_back(current_[id.index()]);
    } else if (backward && !trace_.storages[id.index()].constant) {
      const bool dropped = !trace_.free || freed_[id.index()].valid();
      graph_.storages[id.index()].kind = dropped ? StorageKind::kTemporary : StorageKind::kGradient;
    }
    op.outputs.push_back(AddTensor(id));
    current_[id.index()] = op.outputs.back();
  }

  // The trace knows bytes alone. It is of float32, so they are taken for that where they can be.
  TensorId AddTensor(StorageId id) {
    const Bytes bytes = graph_.storage(id).bytes;
    const DType dtype = bytes % 4 == 0 ? DType::kFloat32 : DType::kUInt8;
    Tensor tensor{
        .storage = id, .dtype = dtype, .shape = {bytes / ItemSize(dtype)}, .stride = {1}, .offset = 0, .name = {}};
    graph_.tensors.push_back(std::move(tensor));
    return TensorId(graph_.tensors.size() - 1);
  }

  // What the trace never drops is still referenced when the step has ended.
  void AddKept() {
    for (std::size_t i = 0; i < freed_.size(); ++i) {
      if (!trace_.storages[i].constant && !freed_[i].valid() && current_[i].valid()) {
        graph_.outputs.push_back(current_[i]);
      }
    }
  }

  const Trace& trace_;
  TrainingGraph graph_;
  std::vector<std::size_t> listed_;  // of each storage, the last list that named it
  std::size_t lists_ = 0;
  std::vector<TensorId> current_;  // of each storage, the tensor whose contents it has now
  std::vector<OpId> reader_;       // of each storage, the last op that was given it
  std::vector<OpId> freed_;        // of each storage; empty where the trace does not say
};

}  // namespace

bool IsTimedTrace(std::string_view text) {
  // Keys of the outermost object: strings at depth 1 with a colon behind them.
  int depth = 0;
  bool ops = false;
  bool storages = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '{':
      case '[': ++depth; break;
      case '}':
      case ']': --depth; break;
      case '"': {
        const std::size_t begin = ++i;
        while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
        const std::string_view name = text.substr(begin, std::min(i, text.size()) - begin);
        const std::size_t next = text.find_first_not_of(" \t\r\n", std::min(i + 1, text.size()));
        if (depth != 1 || next == std::string_view::npos || text[next] != ':') break;
        if (name == "format") return false;
        ops = ops || name == "ops";
        storages = storages || name == "storages";
        if (ops && storages) return true;
        break;
      }
      default: break;
    }
  }
  return false;
}

Result<TrainingGraph> ParseTrace(std::string_view text, const std::string& name) {
  auto trace = TraceParser(text).Parse();
  if (!trace) return Within(name, trace.error());
  auto graph = TraceGraph(*trace).Build();
  if (!graph) return Within(name, graph.error());
  if (const Status status = Check(*graph); !status) return Within(name, status.error());
  return graph;
}

}  // namespace ebbtide::model::timed
