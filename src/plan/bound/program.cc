// The linear program behind the bound. docs/plan-bound.md names its columns and rows and proves them.
#include <algorithm>
#include <array>
#include <cmath>

#include "plan/bound/bound.h"
#include "plan/bound/linear.h"

namespace ebbtide::plan {
namespace {

using Terms = std::vector<LinearProgram::Term>;

// Times are in iterations of the plain step, bytes in budgets.
constexpr double kMostIterations = 64;

// The iteration cut at the first runs of some ops: stage k lasts from the first run of ops[k] to that of ops[k + 1].
struct Stages {
  std::vector<OpId> ops;
  IdVector<OpId, int> of;  // the stage of each op, and one more for the end

  Stages(std::vector<OpId> moments, std::size_t all) : ops(std::move(moments)) {
    if (ops.empty() || ops.front() != OpId(0)) ops.insert(ops.begin(), OpId(0));
    std::size_t k = 0;
    for (const OpId op : Ids<OpId>(all + 1)) {
      if (k + 1 < ops.size() && op == ops[k + 1]) ++k;
      of.push_back(static_cast<int>(k));
    }
  }
  int count() const { return static_cast<int>(ops.size()); }
};

// The moments, and the end of the uses of what is idle at the last of them: copies must be done by then. With more than
// one part also the times that divide what is before the first and behind the last.
std::vector<OpId> WithEnd(const Problem& problem, std::vector<OpId> moments, int parts) {
  if (moments.empty()) return moments;
  const sim::Workload& workload = *problem.workload;
  const OpId first = moments.front(), last = moments.back();
  OpId end = last;  // the last use of what is idle when memory was last short
  for (const StorageId s : workload.storage_ids()) {
    if (workload.IsState(s) || workload.born[s] >= last || workload.uses[s].empty()) continue;
    end = std::max(end, workload.uses[s].back());
  }
  const auto add_at = [&](Nanos time) {
    moments.emplace_back(
        static_cast<std::size_t>(std::ranges::lower_bound(problem.clock, time) - problem.clock.begin()));
  };
  for (int part = 1; part < parts; ++part) {
    add_at(problem.clock[first] * part / parts);
    add_at(problem.clock[last] + (problem.clock[end] - problem.clock[last]) * part / parts);
  }
  moments.push_back(end.Next());
  std::ranges::sort(moments);
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  std::erase_if(moments, [&](OpId op) { return op >= workload.time.end_id(); });
  return moments;
}

// Columns by (id, stage); -1: there is none.
template <class IdType>
class Grid {
 public:
  Grid(std::size_t ids, int stages) : stages_(static_cast<std::size_t>(stages)), columns_(ids * stages_, -1) {}
  int& At(IdType id, int stage) { return columns_[id.index() * stages_ + static_cast<std::size_t>(stage)]; }

 private:
  std::size_t stages_;
  std::vector<int> columns_;
};

class Program {
 public:
  Program(const Problem& problem, const BoundOptions& options, const std::vector<OpId>& moments, int parts)
      : problem_(problem),
        workload_(*problem.workload),
        options_(options),
        plain_(std::max(1.0, static_cast<double>(problem.clock.back()))),
        budget_(std::max(1.0, static_cast<double>(problem.limits.budget))),
        stages_(problem.limits.may_swap ? WithEnd(problem, moments, parts) : moments, workload_.ops()),
        writers_(sim::Transpose(workload_.changes, workload_.storages())),
        may_run_again_(MayRunAgain(problem)),
        present_(workload_.storages(), stages_.count()),
        again_(workload_.ops(), stages_.count()),
        fetched_(workload_.storages(), stages_.count()),
        fetched_ahead_(workload_.storages(), stages_.count()),
        on_host_(workload_.storages(), stages_.count()) {}

  Nanos Run() {
    ChooseStorages();
    FindLastStages();
    AddColumns();
    if (IsLate(problem_)) return problem_.clock.back();
    for (const StorageId s : workload_.storage_ids()) {
      if (is_followed_[s]) AddStorage(s);
    }
    for (const OpId op : workload_.op_ids()) AddNeedsOfAgain(op);
    AddMemory();
    AddCompute();
    if (problem_.limits.may_swap) AddLink();
    if (IsLate(problem_)) return problem_.clock.back();
    const LinearProgram::Solution solution = program_.Solve(options_.most_pivots, [this] { return IsLate(problem_); });
    const double iterations = std::min(solution.at_least, kMostIterations);
    // Times are whole: what is above the limit is at least the next.
    return static_cast<Nanos>(std::ceil(iterations * plain_ * (1 - 1e-9)));
  }

  std::size_t Size() {
    ChooseStorages();
    FindLastStages();
    std::size_t out = 0;
    for (const StorageId s : workload_.storage_ids()) {
      if (is_followed_[s]) out += static_cast<std::size_t>(std::max(0, last_stage_[s] - Born(s)));
    }
    return out;
  }

 private:
  int Born(StorageId s) const { return workload_.IsState(s) ? 0 : stages_.of[workload_.born[s]]; }
  bool StateMayLeave() const { return options_.state_may_leave && problem_.limits.may_swap; }
  bool IsState(StorageId s) const { return workload_.IsState(s); }
  // Whether the op at which stage k begins needs it.
  bool IsNeededAtStart(StorageId s, int k) const {
    return std::ranges::binary_search(workload_.uses[s], stages_.ops[static_cast<std::size_t>(k)]);
  }
  OpId OpAt(int k) const { return stages_.ops[static_cast<std::size_t>(k)]; }

  // Small storages are taken to be wherever they are needed and to take no room.
  void ChooseStorages() {
    const Bytes most = *std::ranges::max_element(problem_.live);
    Bytes left_out = std::max<Bytes>(0, most - problem_.limits.budget) / 100;
    std::vector<StorageId> order;
    is_followed_.assign(workload_.storages(), false);
    for (const StorageId s : workload_.storage_ids()) {
      if (IsState(s) && !StateMayLeave()) continue;
      if (workload_.bytes[s] == 0 || (workload_.uses[s].empty() && !IsState(s))) continue;
      order.push_back(s);
    }
    std::ranges::stable_sort(order, {}, [&](StorageId s) { return workload_.bytes[s]; });
    for (const StorageId s : order) {
      left_out -= workload_.bytes[s];
      is_followed_[s] = left_out < 0;
    }
  }

  // The last stage in which each storage can be of use, and each op worth running again: for the graph's ops, or for
  // others that run again.
  void FindLastStages() {
    last_stage_.assign(workload_.storages(), -1);
    last_again_.assign(workload_.ops(), -1);
    for (const StorageId s : workload_.storage_ids()) {
      if (!is_followed_[s]) continue;
      last_stage_[s] = workload_.outlives[s] ? stages_.count() - 1 : stages_.of[workload_.uses[s].back()];
    }
    for (std::size_t i = workload_.ops(); i-- > 0;) {
      const OpId op(i);
      if (!may_run_again_[op]) continue;
      int& last = last_again_[op];
      for (const StorageId s : workload_.births[op]) last = std::max(last, last_stage_[s]);
      for (const StorageId s : workload_.changes[op]) last = std::max(last, last_stage_[s]);
      for (const StorageId s : workload_.needs[op]) {
        if (is_followed_[s]) last_stage_[s] = std::max(last_stage_[s], last);
      }
    }
  }

  void AddColumns() {
    for (int k = 0; k <= stages_.count(); ++k)
      start_.push_back(program_.AddColumn(0, kMostIterations, k == stages_.count() ? 1 : 0));
    for (const StorageId s : workload_.storage_ids()) {
      if (!is_followed_[s]) continue;
      for (int k = Born(s) + 1; k <= last_stage_[s]; ++k) {
        present_.At(s, k) = program_.AddColumn(IsNeededAtStart(s, k) ? 1 : 0, 1);
        if (!problem_.limits.may_swap) continue;
        fetched_.At(s, k) = program_.AddColumn(0, 1);
        if (k < last_stage_[s]) fetched_ahead_.At(s, k) = program_.AddColumn(0, 1);
      }
      if (!problem_.limits.may_swap || last_stage_[s] <= Born(s)) continue;
      for (int k = Born(s); k <= last_stage_[s]; ++k) on_host_.At(s, k) = program_.AddColumn(0, 1);
    }
    for (const OpId op : workload_.op_ids()) {
      for (int k = stages_.of[op] + 1; k <= last_again_[op]; ++k) again_.At(op, k) = program_.AddColumn(0, 1);
    }
  }

  void Put(int column, double value) {
    if (column >= 0) terms_.emplace_back(column, value);
  }
  void Close(double at_least) {
    program_.AddRow(terms_, at_least);
    terms_.clear();
  }

  // What puts the storage, with the work of `maker` in it, on the device in stage k, where it was before the stage.
  void PutArrival(StorageId s, int k, OpId maker, bool also_ahead) {
    Put(present_.At(s, k), 1);
    Put(fetched_.At(s, k), 1);
    if (also_ahead) Put(fetched_ahead_.At(s, k), 1);
    if (maker.valid()) Put(again_.At(maker, k), 1);
  }

  // The contents as `before` finds them are on the device in stage k, at least to the extent of column `if_column`.
  void Require(StorageId s, int k, OpId before, bool also_ahead, int if_column) {
    if (k <= Born(s)) return;
    const auto row = [&](OpId maker) {
      PutArrival(s, k, maker, also_ahead);
      Put(if_column, -1);
      Close(if_column < 0 ? 1 : 0);
    };
    row(workload_.born[s]);
    for (const OpId writer : writers_[s]) {
      if (writer < before && writer < OpAt(k)) row(writer);
    }
  }

  void AddStorage(StorageId s) {
    const int born = Born(s);
    int done = -1;  // stages in which the use is dealt with
    const auto use_in = [&](int k, OpId op) {
      if (k <= done || k <= born) return;
      done = k;
      Require(s, k, op, false, -1);
    };
    for (const OpId op : workload_.uses[s]) {
      const int k = stages_.of[op];
      if (op == OpAt(k) && k > 0) {
        if (k > born) Require(s, k - 1, op, true, -1);
      } else {
        use_in(k, op);
      }
    }
    if (workload_.outlives[s]) use_in(stages_.count() - 1, workload_.time.end_id());
    for (int k = born + 2; k <= last_stage_[s]; ++k) {
      if (IsNeededAtStart(s, k)) continue;
      PutArrival(s, k - 1, workload_.born[s], true);
      Put(present_.At(s, k), -1);
      Close(0);
    }
    if (!problem_.limits.may_swap) return;
    for (int k = born + 1; k <= last_stage_[s]; ++k) {
      for (Grid<StorageId>* const grid : {&fetched_, &fetched_ahead_}) {
        if (grid->At(s, k) < 0) continue;
        Put(on_host_.At(s, k), 1);
        Put(grid->At(s, k), -1);
        Close(0);
      }
      Put(on_host_.At(s, k), -1);
      Put(on_host_.At(s, k - 1), 1);
      Put(present_.At(s, k), 1);
      if (!IsState(s)) Put(again_.At(workload_.born[s], k), 1);
      Close(0);
      RequireCopy(s, k);
    }
  }

  // What is away when stage k begins, and is not made again before its next use, the host has by then.
  void RequireCopy(StorageId s, int k) {
    if (IsNeededAtStart(s, k)) return;
    const auto uses = workload_.uses[s];
    const auto next = std::ranges::lower_bound(uses, OpAt(k));
    if (next == uses.end() && !workload_.outlives[s]) return;
    const int last = next == uses.end() ? stages_.count() - 1 : stages_.of[*next];
    Put(present_.At(s, k), 1);
    Put(on_host_.At(s, k - 1), 1);
    for (int j = k; j <= last && !IsState(s); ++j) Put(again_.At(workload_.born[s], j), 1);
    Close(1);
  }

  void AddNeedsOfAgain(OpId op) {
    for (int k = stages_.of[op] + 1; k <= last_again_[op]; ++k) {
      for (const StorageId s : workload_.needs[op]) {
        if (is_followed_[s] && !IsNeededAtStart(s, k)) Require(s, k, op, false, again_.At(op, k));
      }
    }
  }

  void AddMemory() {
    IdVector<StorageId, bool> counted;
    for (int k = 0; k < stages_.count(); ++k) {
      const OpId op = OpAt(k);
      Bytes room = problem_.limits.budget - workload_.workspace[op];
      counted.assign(workload_.storages(), false);
      const auto take = [&](StorageId s) {
        if (!counted[s]) room -= workload_.bytes[s];
        counted[s] = true;
      };
      for (const StorageId s : workload_.needs[op]) take(s);
      for (const StorageId s : workload_.births[op]) take(s);
      Bytes all = 0;
      for (const StorageId s : workload_.storage_ids()) {
        if (IsState(s) && !StateMayLeave()) take(s);
        if (counted[s] || present_.At(s, k) < 0) continue;
        all += workload_.bytes[s];
        Put(present_.At(s, k), -static_cast<double>(workload_.bytes[s]) / budget_);
      }
      if (all > room) Close(-static_cast<double>(room) / budget_);
      terms_.clear();
    }
  }

  void AddCompute() {
    for (int k = 0; k < stages_.count(); ++k) {
      const OpId end = k + 1 < stages_.count() ? OpAt(k + 1) : workload_.time.end_id();
      PutWindow(k, k + 1);
      for (const OpId op : Ids(OpId(0), OpAt(k)))
        Put(again_.At(op, k), -static_cast<double>(workload_.time[op]) / plain_);
      Close(static_cast<double>(problem_.clock[end] - problem_.clock[OpAt(k)]) / plain_);
    }
  }

  // The time from the start of one stage to that of another.
  void PutWindow(int from, int to) {
    Put(start_[static_cast<std::size_t>(to)], 1);
    Put(start_[static_cast<std::size_t>(from)], -1);
  }

  // The start of the stage by which a copy to the device that is queued in stage k, and not waited for in it, is done.
  int Due(StorageId s, int k) const {
    if (k + 1 >= stages_.count()) return stages_.count();
    const auto uses = workload_.uses[s];
    const auto next = std::ranges::lower_bound(uses, OpAt(k + 1));
    if (next == uses.end()) return stages_.count();
    const int stage = stages_.of[*next];
    return *next == OpAt(stage) ? stage : stage + 1;
  }

  void AddLink() {
    const int count = stages_.count();
    const auto side = static_cast<std::size_t>(count + 1);
    // Copies by the stage from which and to which they may last.
    std::vector<Terms> in(side * side), out(side * side);
    const auto at = [&](std::vector<Terms>& grid, int from, int to) -> Terms& {
      return grid[static_cast<std::size_t>(from) * side + static_cast<std::size_t>(to)];
    };
    for (const StorageId s : workload_.storage_ids()) {
      if (!is_followed_[s]) continue;
      const double time_in = static_cast<double>(problem_.link.TimeIn(workload_.bytes[s])) / plain_;
      const double time_out = static_cast<double>(problem_.link.TimeOut(workload_.bytes[s])) / plain_;
      for (int k = Born(s); k <= last_stage_[s]; ++k) {
        if (fetched_.At(s, k) >= 0) at(in, k, k + 1).emplace_back(fetched_.At(s, k), -time_in);
        if (fetched_ahead_.At(s, k) >= 0) at(in, k, Due(s, k)).emplace_back(fetched_ahead_.At(s, k), -time_in);
        if (on_host_.At(s, k) >= 0) at(out, Born(s), k + 1).emplace_back(on_host_.At(s, k), -time_out);
      }
    }
    std::vector<int> sum_in(side * side, -1), sum_out(side * side, -1);
    for (std::size_t i = 0; i < side * side; ++i) {
      for (const auto& [copies, sums] : {std::pair(&in, &sum_in), std::pair(&out, &sum_out)}) {
        if ((*copies)[i].empty()) continue;
        (*sums)[i] = program_.AddColumn(0, kMostIterations);
        terms_ = (*copies)[i];
        Put((*sums)[i], 1);
        Close(0);
      }
    }
    for (int from = 0; from < count; ++from) {
      // No copy of a window begins before the op at which the window begins has run.
      const double first = static_cast<double>(workload_.time[OpAt(from)]) / plain_;
      for (int to = from + 1; to <= count; ++to) {
        PutWindow(from, to);
        for (int i = from; i < to; ++i) {
          for (int j = i + 1; j <= to; ++j)
            Put(sum_in[static_cast<std::size_t>(i) * side + static_cast<std::size_t>(j)], -1);
        }
        if (terms_.size() > 2) Close(first);
        terms_.clear();
        // What the host has by the end of the window counts once, with all that was done before it.
        PutWindow(from, to);
        for (int i = from; i < to; ++i)
          Put(sum_out[static_cast<std::size_t>(i) * side + static_cast<std::size_t>(to)], -1);
        if (terms_.size() > 2) Close(first);
        terms_.clear();
      }
    }
  }

  const Problem& problem_;
  const sim::Workload& workload_;
  const BoundOptions& options_;
  double plain_, budget_;
  Stages stages_;
  sim::Lists<StorageId, OpId> writers_;  // ops that change it
  IdVector<OpId, bool> may_run_again_;
  IdVector<StorageId, bool> is_followed_;
  IdVector<StorageId, int> last_stage_;
  IdVector<OpId, int> last_again_;
  LinearProgram program_;
  Terms terms_;
  // ---- Columns
  std::vector<int> start_;         // when each stage begins, and the end
  Grid<StorageId> present_;        // storage s is on the device when stage k begins
  Grid<OpId> again_;               // op runs again in stage k
  Grid<StorageId> fetched_;        // s is copied in, and waited for, in stage k
  Grid<StorageId> fetched_ahead_;  // ... is copied in for later
  Grid<StorageId> on_host_;        // the host has had a copy by the end of stage k
};

// Presences that the solver can cope with in half a second; with swaps each brings more columns.
constexpr std::size_t kMostPresences = 3000, kMostWithSwaps = 600;
constexpr std::size_t kSingleMoments = 8;  // each of which has a program of its own
constexpr std::size_t kLargestSingle = 5;  // times the above: what the first of them may have
constexpr std::array kTogether = {2, 3, 4, 6, 10, 16, 24};

}  // namespace

Nanos BoundFromProgram(const Problem& problem, const BoundOptions& options) {
  if (*std::ranges::max_element(problem.live) <= problem.limits.budget) return problem.clock.back();
  const std::size_t most = problem.limits.may_swap ? kMostWithSwaps : kMostPresences;
  Nanos out = problem.clock.back();
  // The size of the program, which is looked at unless it is larger than `largest`.
  const auto look = [&](const std::vector<OpId>& moments, int parts, std::size_t largest) {
    const std::size_t size = Program(problem, options, moments, parts).Size();
    if (size <= largest && !IsLate(problem)) out = std::max(out, Program(problem, options, moments, parts).Run());
    return size;
  };
  if (options.moments > 0) {
    look(ShortMoments(problem, options.moments), 1, ~std::size_t{0});
    return out;
  }
  std::vector<OpId> single = ShortMoments(problem, kSingleMoments);
  std::ranges::stable_sort(single, std::greater<>(), [&](OpId op) { return problem.live[op]; });
  for (const OpId op : single) {
    if (IsLate(problem) || look({op}, 1, kLargestSingle * most) > most) break;
  }
  for (const int parts : {1, 3}) {
    if (parts > 1 && !problem.limits.may_swap) break;  // without copies it is the same program
    for (const int count : kTogether) {
      const std::vector<OpId> moments = ShortMoments(problem, static_cast<std::size_t>(count));
      if (IsLate(problem) || look(moments, parts, most) > most) break;
      if (moments.size() < static_cast<std::size_t>(count)) break;  // there are no more
    }
  }
  return out;
}

}  // namespace ebbtide::plan
