// Linear programs by CLP, with certificates of our own.
#include "plan/bound/linear.h"

#include <algorithm>
#include <cmath>
#include <coin/ClpEventHandler.hpp>
#include <coin/ClpSimplex.hpp>
#include <coin/ClpSolve.hpp>

namespace ebbtide::plan {
namespace {

// Ends the solver between two pivots.
class StopHandler : public ClpEventHandler {
 public:
  explicit StopHandler(const std::function<bool()>& stop) : stop_(stop) {}
  int event(Event event) override {
    constexpr int kGoOn = -1, kStop = 0;
    return event == endOfIteration && stop_() ? kStop : kGoOn;
  }
  ClpEventHandler* clone() const override { return new StopHandler(*this); }

 private:
  std::function<bool()> stop_;
};

}  // namespace

int LinearProgram::AddColumn(double lower, double upper, double cost) {
  lower_.push_back(lower);
  upper_.push_back(upper);
  cost_.push_back(cost);
  return static_cast<int>(cost_.size()) - 1;
}

void LinearProgram::AddRow(const std::vector<Term>& terms, double at_least) {
  for (const auto& [column, value] : terms) {
    term_column_.push_back(column);
    term_value_.push_back(value);
  }
  row_begin_.push_back(term_column_.size());
  at_least_.push_back(at_least);
}

// For any multipliers y >= 0: cost . x >= cost . x - sum_i y_i (row_i . x - at_least_i), which is least with each
// column at the limit that the sign of its coefficient says.
double LinearProgram::Certify(const double* multipliers) const {
  std::vector<double> left = cost_;
  double sum = 0, magnitude = 0;
  for (std::size_t i = 0; i < at_least_.size(); ++i) {
    const double y = std::max(0.0, multipliers[i]);
    if (!(y > 0) || !std::isfinite(y)) continue;
    sum += y * at_least_[i];
    magnitude += std::abs(y * at_least_[i]);
    for (std::size_t t = row_begin_[i]; t < row_begin_[i + 1]; ++t)
      left[static_cast<std::size_t>(term_column_[t])] -= y * term_value_[t];
  }
  for (std::size_t j = 0; j < left.size(); ++j) {
    const double least = std::min(left[j] * lower_[j], left[j] * upper_[j]);
    sum += least;
    magnitude += std::abs(least);
  }
  // Rounding: each of the sums has far fewer than 10^6 terms of 2^-53 each.
  return sum - 1e-10 * (magnitude + 1);
}

LinearProgram::Solution LinearProgram::Solve(int most_pivots, const std::function<bool()>& stop) const {
  std::vector<CoinBigIndex> begin(row_begin_.begin(), row_begin_.end());
  const CoinPackedMatrix matrix(/*colordered=*/false, static_cast<int>(columns()), static_cast<int>(rows()),
                                static_cast<CoinBigIndex>(term_column_.size()), term_value_.data(), term_column_.data(),
                                begin.data(), nullptr);
  const std::vector<double> no_limit(rows(), COIN_DBL_MAX);
  ClpSimplex solver;
  solver.setLogLevel(0);
  solver.loadProblem(matrix, lower_.data(), upper_.data(), cost_.data(), at_least_.data(), no_limit.data());
  solver.setMaximumIterations(most_pivots);
  if (stop) {
    const StopHandler handler(stop);
    solver.passInEventHandler(&handler);
  }
  ClpSolve how;
  how.setSolveType(ClpSolve::useDual);
  how.setPresolveType(ClpSolve::presolveOn);
  how.setSpecialOption(2, 1);  // leaves Ctrl-C to the program: by itself Clp replaces the handler of SIGINT meanwhile
  solver.initialSolve(how);
  Solution out;
  out.finished = solver.isProvenOptimal();
  out.at_least = Certify(solver.dualRowSolution());
  out.values.assign(solver.primalColumnSolution(), solver.primalColumnSolution() + columns());
  return out;
}

}  // namespace ebbtide::plan
