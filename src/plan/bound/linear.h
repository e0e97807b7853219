// Linear programs whose least value is certified: the solver proposes multipliers, and the limit is computed from them
// here, so that an inexact or early end of the solver costs tightness, never truth.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace ebbtide::plan {

// Least cost . x over lower <= x <= upper with every row's sum at least its right side.
class LinearProgram {
 public:
  using Term = std::pair<int, double>;  // column, coefficient

  // Both limits must be finite: the certificate needs them. Gives the column's number.
  int AddColumn(double lower, double upper, double cost = 0);
  void AddRow(const std::vector<Term>& terms, double at_least);

  std::size_t columns() const { return cost_.size(); }
  std::size_t rows() const { return at_least_.size(); }

  struct Solution {
    double at_least = 0;         // no x within the limits costs less
    std::vector<double> values;  // what the solver takes for the best x
    bool finished = false;       // the solver says that it is the best
  };
  // The solver stops after `most_pivots`, or between two of them when `stop` says so.
  Solution Solve(int most_pivots, const std::function<bool()>& stop = {}) const;

 private:
  double Certify(const double* multipliers) const;

  std::vector<double> lower_, upper_, cost_;
  std::vector<double> at_least_;
  std::vector<std::size_t> row_begin_{0};
  std::vector<int> term_column_;
  std::vector<double> term_value_;
};

}  // namespace ebbtide::plan
