#include "device/workspace_rules.h"

#include <algorithm>

namespace ebbtide {

Bytes ItemSize(ConvolutionType type) {
  switch (type) {
    case ConvolutionType::kFloat64: return 8;
    case ConvolutionType::kFloat32: return 4;
    case ConvolutionType::kInt8: return 1;
    default: return 2;
  }
}

std::vector<ConvolutionEngine> ConvolutionEngines(const ConvolutionProblem&, const DeviceProfile&) {
  return {{.name = "implicit_gemm"}};
}

Bytes ConvolutionWorkspace(const ConvolutionProblem& problem, const DeviceProfile& profile) {
  return ConvolutionEngines(problem, profile).front().workspace;
}

Bytes BatchNormForwardWorkspace(const BatchNormProblem&, const DeviceProfile&) { return 0; }
Bytes BatchNormBackwardWorkspace(const BatchNormProblem&, const DeviceProfile&) { return 0; }
Bytes BatchNormReserve(const BatchNormProblem&) { return 0; }

namespace {

// Elements of one layer's output at all steps.
std::int64_t StepsOfLayer(const RecurrentProblem& problem) {
  return problem.length * problem.batch * problem.hidden_size * problem.directions;
}

}  // namespace

Bytes RecurrentWorkspace(const RecurrentProblem& problem) {
  return problem.item_size * (problem.gates + 1) * StepsOfLayer(problem);
}

Bytes RecurrentReserve(const RecurrentProblem& problem) {
  if (!problem.is_training) return 0;
  std::int64_t kept = problem.gates + (problem.has_cell_state ? 2 : 1);
  std::int64_t elements = problem.layers * kept * StepsOfLayer(problem);
  if (problem.has_dropout) elements += (problem.layers - 1) * StepsOfLayer(problem);
  return problem.item_size * elements;
}

Bytes DropoutStates(const DeviceProfile& profile) {
  return profile.multiprocessors * profile.threads_per_multiprocessor * 48;
}

Bytes CtcWorkspace(Bytes item_size, std::int64_t length, std::int64_t batch, std::int64_t classes,
                   std::int64_t longest_label) {
  return item_size * batch * (length * classes + length * (2 * longest_label + 1) + 2 * (2 * longest_label + 1));
}

Bytes BlasWorkspace(const DeviceProfile& profile) {
  if (profile.compute_major >= 9) return 32 * kMiB;
  return 4096 * kKiB * 2 + 16 * kKiB * 8;
}

}  // namespace ebbtide
