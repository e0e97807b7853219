// cuDNN's recurrent networks. They read sequences step by step, so a batch that lies sequence by sequence is copied.
#include "device/workspace_rules.h"
#include "estimate/scratch_rules.h"
#include "graph/arguments.h"
#include "graph/dtype.h"

namespace ebbtide::estimate {
namespace {

bool Flag(const Op& op, std::string_view name) {
  const bool* value = ArgumentAs<bool>(op, name);
  return value != nullptr && *value;
}

RecurrentProblem ProblemOf(const ScratchQuery& query, const Tensor& input, const Tensor& state) {
  const bool batch_first = Flag(query.op, "batch_first");
  RecurrentProblem problem;
  problem.item_size = ItemSize(input.dtype);
  problem.directions = Flag(query.op, "bidirectional") ? 2 : 1;
  problem.layers = state.shape[0] / problem.directions;
  problem.hidden_size = state.shape[2];
  problem.has_cell_state = query.Argument("cx") != nullptr;
  const TensorList* weights = ArgumentAs<TensorList>(query.op, "weight");
  if (weights != nullptr && !weights->ids.empty() && weights->ids.front().valid() && problem.hidden_size > 0) {
    const Tensor& first = query.graph.tensor(weights->ids.front());
    if (!first.shape.empty()) problem.gates = first.shape[0] / problem.hidden_size;
  }
  problem.input_size = input.shape[2];
  problem.length = input.shape[batch_first ? 1 : 0];
  problem.batch = input.shape[batch_first ? 0 : 1];
  return problem;
}

Bytes StepsFirst(const ScratchQuery& query, const Tensor& sequences) {
  Tensor steps = sequences;
  if (Flag(query.op, "batch_first") && steps.shape.size() == 3) {
    std::swap(steps.shape[0], steps.shape[1]);
    std::swap(steps.stride[0], steps.stride[1]);
  }
  return IsRowMajor(steps) ? 0 : SizeOf(steps);
}

bool Has3Axes(const Tensor* tensor) { return tensor != nullptr && tensor->shape.size() == 3; }

}  // namespace

void RecurrentScratch(const ScratchQuery& query, ScratchList& scratch) {
  const Tensor* input = query.Argument("input");
  const Tensor* state = query.Argument("hx");
  if (!Has3Axes(input) || !Has3Axes(state)) return;
  scratch.Take(0, StepsFirst(query, *input));
  scratch.Take(3, RecurrentWorkspace(ProblemOf(query, *input, *state)));  // behind the output and the last states
}

// First the gradients of the input and of the first states, then those of the weights. The last states have gradients
// of zeros where the program does not use them.
void RecurrentBackwardScratch(const ScratchQuery& query, ScratchList& scratch) {
  const Tensor* input = query.Argument("input");
  const Tensor* state = query.Argument("hx");
  const Tensor* grad = query.Argument("grad");
  if (!Has3Axes(input) || !Has3Axes(state) || !Has3Axes(grad)) return;
  const RecurrentProblem problem = ProblemOf(query, *input, *state);
  const Bytes states = problem.has_cell_state ? 2 : 1;
  const Bytes workspace = RecurrentWorkspace(problem);
  const std::size_t inputs = query.graph.tensor(query.op.outputs.front()).shape == input->shape ? 1 : 0;
  for (Bytes i = 0; i < states; ++i) scratch.Take(0, SizeOf(*state));
  const ScratchList::Place steps = scratch.Take(0, StepsFirst(query, *input));
  const ScratchList::Place grad_steps = scratch.Take(0, StepsFirst(query, *grad));
  if (inputs == 0) scratch.Take(0, SizeOf(*input));
  for (Bytes i = 0; i < states; ++i) scratch.Take(inputs, SizeOf(*state));
  scratch.TakeAndRelease(inputs, workspace);
  scratch.Release(grad_steps, inputs);
  scratch.Release(steps, inputs);
  scratch.Take(inputs, StepsFirst(query, *input));
  scratch.TakeAndRelease(inputs + 1, workspace);
}

}  // namespace ebbtide::estimate
