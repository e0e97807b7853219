// Stage t ends with the first run of op t. Before it, ops that ran earlier may run again, in the graph's order.
//   again(t, o)    op o < t runs again in stage t
//   saved(t, s)    storage s is there when stage t begins
//   freed(t, s, o) s goes after op o of stage t, which made it or read it
//   used(t, o)     bytes in use while op o of stage t runs, but for its workspace
#include "plan/policies/checkmate.h"

#include <coin/Cbc_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <coin/CoinFinite.hpp>
#include <coin/CoinPackedMatrix.hpp>
#include <memory>

#include "plan/bound/bound.h"
#include "sim/machine.h"

namespace ebbtide::plan {
namespace {

class Model {
 public:
  Model(const Problem& problem, const CheckmateOptions& options)
      : problem_(problem),
        workload_(*problem.workload),
        options_(options),
        end_(workload_.ops()),
        writers_(sim::Transpose(workload_.changes, workload_.storages())),
        may_run_again_(MayRunAgain(problem)),
        again_((workload_.ops() + 1) * workload_.ops(), -1),
        saved_((workload_.ops() + 1) * workload_.storages(), -1) {
    room_ = problem.limits.budget;
    for (const StorageId s : workload_.storage_ids()) {
      if (IsState(s)) room_ -= workload_.bytes[s];
    }
    unit_ = static_cast<double>(std::max<Bytes>(room_, 1));
  }

  CheckmateResult Run() {
    FindLastStages();
    FindLastPossible();
    AddColumns();
    for (const OpId t : workload_.op_ids()) {
      if (IsLate(problem_)) return {};
      AddStage(t);
    }
    return Solve();
  }

 private:
  bool IsState(StorageId s) const { return workload_.IsState(s); }
  bool IsFollowed(StorageId s) const { return !IsState(s) && workload_.bytes[s] > 0; }
  int& Again(OpId t, OpId op) { return again_[t.index() * workload_.ops() + op.index()]; }
  int& Saved(OpId t, StorageId s) { return saved_[t.index() * workload_.storages() + s.index()]; }

  int AddColumn(double lower, double upper, double cost, bool is_integer) {
    lower_.push_back(lower), upper_.push_back(upper), cost_.push_back(cost), is_integer_.push_back(is_integer);
    return static_cast<int>(cost_.size()) - 1;
  }
  void Put(int column, double value) {
    if (column < 0) return;
    row_columns_.push_back(column);
    row_values_.push_back(value);
  }
  void Close(double least, double most) {
    rows_.appendRow(static_cast<int>(row_columns_.size()), row_columns_.data(), row_values_.data());
    row_lower_.push_back(least), row_upper_.push_back(most);
    row_columns_.clear(), row_values_.clear();
  }

  // The last stage in which a storage, or a run of an op, can be of use.
  void FindLastStages() {
    last_use_.assign(workload_.storages(), OpId(0));
    last_again_.assign(workload_.ops(), OpId(0));
    for (const StorageId s : workload_.storage_ids()) {
      if (IsFollowed(s)) last_use_[s] = workload_.outlives[s] ? end_ : workload_.uses[s].back();
    }
    for (std::size_t i = workload_.ops(); i-- > 0;) {
      const OpId op(i);
      if (!may_run_again_[op]) continue;
      for (const StorageId s : workload_.births[op]) last_again_[op] = std::max(last_again_[op], last_use_[s]);
      for (const StorageId s : workload_.changes[op]) {
        if (IsFollowed(s)) last_again_[op] = std::max(last_again_[op], last_use_[s]);
      }
      for (const StorageId s : workload_.needs[op]) {
        if (IsFollowed(s)) last_use_[s] = std::max(last_use_[s], last_again_[op]);
      }
    }
  }

  // An op cannot run again once a later op has changed what it reads.
  void FindLastPossible() {
    last_possible_.assign(workload_.ops(), end_);
    for (const OpId op : workload_.op_ids()) {
      for (const StorageId s : workload_.needs[op]) {
        if (std::ranges::find(workload_.changes[op], s) != workload_.changes[op].end()) continue;
        for (const OpId writer : writers_[s]) {
          if (writer > op) last_possible_[op] = std::min(last_possible_[op], writer);
        }
      }
    }
  }

  void AddColumns() {
    const double plain = std::max(1.0, static_cast<double>(problem_.clock.back()));
    for (const OpId t : Ids<OpId>(workload_.ops() + 1)) {
      for (const StorageId s : workload_.storage_ids()) {
        if (!IsFollowed(s) || workload_.born[s] >= t || t > last_use_[s]) continue;
        if (t == end_ && !workload_.outlives[s]) continue;
        Saved(t, s) = AddColumn(t == end_ ? 1 : 0, 1, 0, true);
      }
      if (t == end_) break;
      for (const OpId op : Ids(OpId(0), t)) {
        if (may_run_again_[op] && t <= std::min(last_again_[op], last_possible_[op]))
          Again(t, op) = AddColumn(0, 1, static_cast<double>(workload_.time[op]) / plain, true);
      }
    }
  }

  void AddStage(OpId t) {
    stage_.clear();
    for (const OpId op : Ids(OpId(0), t)) {
      if (Again(t, op) >= 0) stage_.push_back(op);
    }
    stage_.push_back(t);
    for (const OpId op : stage_) AddNeeds(t, op);
    for (const StorageId s : workload_.storage_ids()) AddStorage(t, s);
    AddMemory(t);
  }

  void AddNeeds(OpId t, OpId op) {
    for (const StorageId s : workload_.needs[op]) {
      if (!IsFollowed(s)) continue;
      const auto row = [&](OpId maker) {
        Put(Saved(t, s), 1);
        Put(Again(t, maker), 1);
        if (op < t) Put(Again(t, op), -1);
        Close(op < t ? 0 : 1, COIN_DBL_MAX);
      };
      if (workload_.born[s] < t) row(workload_.born[s]);
      for (const OpId writer : writers_[s]) {
        if (writer < op) row(writer);
      }
    }
    // A change is not made twice.
    for (const StorageId s : workload_.changes[op]) {
      if (op == t || !IsFollowed(s)) continue;
      Put(Again(t, op), 1);
      Put(Saved(t, s), 1);
      Close(-COIN_DBL_MAX, 1);
    }
  }

  void AddStorage(OpId t, StorageId s) {
    if (!IsFollowed(s) || workload_.born[s] >= t) return;
    if (Saved(t.Next(), s) < 0) return;
    const auto row = [&](OpId maker) {
      Put(Saved(t.Next(), s), -1);
      Put(Saved(t, s), 1);
      Put(Again(t, maker), 1);
      Close(0, COIN_DBL_MAX);
    };
    row(workload_.born[s]);
    for (const OpId writer : writers_[s]) {
      if (writer < t) row(writer);
    }
  }

  void AddMemory(OpId t) {
    int before = -1;
    std::vector<std::pair<int, double>> leaving;  // after the op before
    for (std::size_t i = 0; i < stage_.size(); ++i) {
      const OpId op = stage_[i];
      const int used = AddColumn(0, static_cast<double>(room_) / unit_, 0, false);
      double own = 0;
      for (const StorageId s : workload_.births[op]) own += static_cast<double>(workload_.bytes[s]) / unit_;
      Put(used, 1);
      if (before >= 0) {
        Put(before, -1);
      } else {
        for (const StorageId s : workload_.storage_ids())
          Put(Saved(t, s), -static_cast<double>(workload_.bytes[s]) / unit_);
      }
      for (const auto& [column, bytes] : leaving) Put(column, bytes);
      if (op < t) Put(Again(t, op), -own);
      Close(op < t ? 0 : own, op < t ? 0 : own);
      if (workload_.workspace[op] > 0) {
        const double workspace = static_cast<double>(workload_.workspace[op]) / unit_;
        Put(used, 1);
        if (op < t) Put(Again(t, op), workspace);
        Close(-COIN_DBL_MAX, static_cast<double>(room_) / unit_ - (op < t ? 0 : workspace));
      }
      leaving.clear();
      if (op < t) AddFreed(t, i, leaving);
      before = used;
    }
  }

  void AddFreed(OpId t, std::size_t place, std::vector<std::pair<int, double>>& leaving) {
    const OpId op = stage_[place];
    const auto consider = [&](StorageId s) {
      if (!IsFollowed(s) || std::ranges::binary_search(workload_.uses[s], t)) return;
      const int freed = AddColumn(0, 1, 0, false);
      const auto not_with = [&](int column) {
        Put(freed, 1);
        Put(column, 1);
        Close(-COIN_DBL_MAX, 1);
      };
      Put(freed, 1);
      Put(Again(t, op), -1);
      Close(-COIN_DBL_MAX, 0);
      if (Saved(t.Next(), s) >= 0) not_with(Saved(t.Next(), s));
      for (const OpId later : workload_.uses[s]) {
        if (later > op && later < t && Again(t, later) >= 0) not_with(Again(t, later));
      }
      leaving.emplace_back(freed, static_cast<double>(workload_.bytes[s]) / unit_);
    };
    for (const StorageId s : workload_.needs[op]) consider(s);
    for (const StorageId s : workload_.births[op]) {
      consider(s);
      if (workload_.births[op].size() < 2 || Saved(t, s) < 0) continue;
      // A second copy of what is there already goes at once.
      const int second = AddColumn(0, 1, 0, false);
      for (const int column : {Again(t, op), Saved(t, s)}) {
        Put(second, 1);
        Put(column, -1);
        Close(-COIN_DBL_MAX, 0);
      }
      leaving.emplace_back(second, static_cast<double>(workload_.bytes[s]) / unit_);
    }
  }

  CheckmateResult Solve() {
    CheckmateResult out;
    rows_.setDimensions(static_cast<int>(row_lower_.size()), static_cast<int>(cost_.size()));
    rows_.reverseOrdering();
    const std::unique_ptr<Cbc_Model, void (*)(Cbc_Model*)> solver(Cbc_newModel(), Cbc_deleteModel);
    Cbc_loadProblem(solver.get(), static_cast<int>(cost_.size()), static_cast<int>(row_lower_.size()),
                    rows_.getVectorStarts(), rows_.getIndices(), rows_.getElements(), lower_.data(), upper_.data(),
                    cost_.data(), row_lower_.data(), row_upper_.data());
    for (std::size_t j = 0; j < cost_.size(); ++j) {
      if (is_integer_[j]) Cbc_setInteger(solver.get(), static_cast<int>(j));
    }
    Cbc_setLogLevel(solver.get(), 0);
    Cbc_setMaximumNodes(solver.get(), options_.most_nodes);
    if (problem_.deadline.exists()) Cbc_setMaximumSeconds(solver.get(), problem_.deadline.SecondsLeft());
    const auto plain = static_cast<double>(problem_.clock.back());
    if (options_.better_than > 0)
      Cbc_setCutoff(solver.get(), (static_cast<double>(options_.better_than) - 0.5) / std::max(1.0, plain) - 1);
    Cbc_solve(solver.get());
    out.proved = Cbc_isProvenOptimal(solver.get()) || Cbc_isProvenInfeasible(solver.get());
    if (Cbc_numberSavedSolutions(solver.get()) > 0 && !Cbc_isProvenInfeasible(solver.get()))
      out.schedule = Replay(Cbc_getColSolution(solver.get()));
    return out;
  }

  // Runs what the solution says on a machine; what is no longer saved or read goes at once.
  std::optional<sim::Schedule> Replay(const double* solution) {
    const auto is_set = [&](int column) { return column >= 0 && solution[column] > 0.5; };
    sim::Machine machine(workload_, problem_.link, /*record=*/true);
    IdVector<StorageId, OpId> last_read(workload_.storages());
    for (const OpId t : workload_.op_ids()) {
      std::vector<OpId> runs;
      for (const OpId op : Ids(OpId(0), t)) {
        if (is_set(Again(t, op))) runs.push_back(op);
      }
      runs.push_back(t);
      std::ranges::fill(last_read, OpId(0));
      for (const OpId op : runs) {
        for (const StorageId s : workload_.needs[op]) last_read[s] = op;
      }
      for (const OpId op : runs) {
        for (const StorageId s : workload_.needs[op]) {
          if (!machine.OnDevice(s)) return std::nullopt;
        }
        if (machine.used() + machine.RoomFor(op, op < t) > problem_.limits.budget) return std::nullopt;
        machine.Run(op, op < t);
        const auto let_go = [&](StorageId s) {
          if (!IsFollowed(s) || !machine.OnDevice(s) || last_read[s] > op || is_set(Saved(t.Next(), s))) return;
          const bool is_wanted = std::ranges::upper_bound(workload_.uses[s], t) != workload_.uses[s].end();
          machine.Drop(s, is_wanted ? sim::End::kDrop : sim::End::kFree);
        };
        for (const StorageId s : workload_.needs[op]) let_go(s);
        for (const StorageId s : workload_.births[op]) let_go(s);
      }
      for (const StorageId s : workload_.storage_ids()) {
        if (IsFollowed(s) && machine.OnDevice(s) && !is_set(Saved(t.Next(), s))) machine.Drop(s, sim::End::kDrop);
      }
    }
    return machine.TakeSchedule();
  }

  const Problem& problem_;
  const sim::Workload& workload_;
  const CheckmateOptions& options_;
  OpId end_;                             // one past the last op, and the stage behind the last
  Bytes room_ = 0;                       // for all but state
  double unit_ = 1;                      // bytes that count as one
  sim::Lists<StorageId, OpId> writers_;  // ops that change it
  IdVector<OpId, bool> may_run_again_;
  IdVector<StorageId, OpId> last_use_;               // the stage
  IdVector<OpId, OpId> last_again_, last_possible_;  // the stages
  std::vector<int> again_, saved_;                   // columns
  std::vector<OpId> stage_;                          // ops that may run in the stage at hand
  std::vector<double> lower_, upper_, cost_;
  std::vector<bool> is_integer_;
  CoinPackedMatrix rows_{false, 0, 0};
  std::vector<double> row_lower_, row_upper_;
  std::vector<int> row_columns_;
  std::vector<double> row_values_;
};

}  // namespace

CheckmateResult Checkmate(const Problem& problem, const CheckmateOptions& options) {
  return Model(problem, options).Run();
}

}  // namespace ebbtide::plan
