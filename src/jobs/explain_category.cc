// The table of frames, and what no frame tells: what autograd's threads make, and what becomes of it.
#include "jobs/explain_category.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace ebbtide::jobs {
namespace {

using trace::Allocation;
using trace::Frame;
using trace::Stack;

// Found in backward: a gradient or something that a gradient took, told apart by its size and its life.
constexpr std::string_view kBackward = "backward";

struct Rule {
  std::string_view file;      // is part of the file's name; empty: any
  std::string_view function;  // is the function's name, or, ending in '*', begins it; empty: any
  std::string_view category;
};

// The first rule that fits decides; frames are looked at from the innermost out.
constexpr Rule kRules[] = {
    {"/optim/", "_init_group", "optimizer_state"},
    {"/optim/", "init_state*", "optimizer_state"},
    {"/optim/", "_init_state*", "optimizer_state"},
    {"/optim/", "get_state_buffer", "optimizer_state"},
    {"/optim", "load_state_dict", "optimizer_state"},
    {"torch/optim/", "", "temporary"},
    {"bitsandbytes/optim/", "", "temporary"},
    {"torch/amp/grad_scaler.py", "", "temporary"},
    {"torch/nn/utils/clip_grad.py", "", "temporary"},
    {"torch/distributed/fsdp/", "*all_gather*", "parameter"},
    {"torch/distributed/fsdp/", "*reduce*", "gradient"},
    {"torch/nn/parallel/distributed.py", "", "gradient"},
    {"torch/nn/modules/module.py", "convert", "parameter"},
    {"torch/nn/modules/module.py", "_apply", "parameter"},
    {"torch/nn/modules/module.py", "load_state_dict", "parameter"},
    {"torch/nn/modules/module.py", "_load_from_state_dict", "parameter"},
    {"torch/nn/modules/", "__init__", "parameter"},
    {"torch/nn/modules/", "reset_parameters", "parameter"},
    {"torch/nn/parameter.py", "", "parameter"},
    {"torch/nn/init.py", "", "parameter"},
    {"transformers/modeling_utils.py", "from_pretrained", "parameter"},
    {"transformers/modeling_utils.py", "_load*", "parameter"},
    {"safetensors/", "", "parameter"},
    {"bitsandbytes/nn/modules.py", "_quantize", "parameter"},
    {"bitsandbytes/nn/modules.py", "to", "parameter"},
    {"bitsandbytes/nn/modules.py", "cuda", "parameter"},
    {"peft/tuners/", "update_layer", "parameter"},
    {"torch/utils/data/", "", "input"},
    {"accelerate/utils/operations.py", "send_to_device", "input"},
    {"lightning", "move_data_to_device", "input"},
    {"lightning", "batch_to", "input"},
    {"transformers/trainer.py", "_prepare_input", "input"},
    {"torch/_tensor.py", "backward", kBackward},
    {"torch/autograd/__init__.py", "", kBackward},
    {"torch/autograd/graph.py", "_engine_run_backward", kBackward},
    {"", "torch::autograd::Engine*", kBackward},
    {"torch/utils/checkpoint.py", "", "activation"},
    {"torch/nn/functional.py", "", "activation"},
    {"torch/nn/modules/module.py", "_call_impl", "activation"},
    {"torch/nn/modules/module.py", "_wrapped_call_impl", "activation"},
    {"", "forward", "activation"},
};

bool Fits(std::string_view name, std::string_view pattern) {
  if (pattern.empty()) return true;
  if (pattern.starts_with('*')) {
    return name.find(pattern.substr(1, pattern.size() - 2)) != std::string_view::npos;
  }
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

// Empty: no frame tells.
std::string_view ByFrames(const Stack& stack) {
  for (const Frame& frame : stack) {
    for (const Rule& rule : kRules) {
      if (frame.file.find(rule.file) != std::string::npos && Fits(frame.function, rule.function)) return rule.category;
    }
  }
  return {};
}

// Of torch, of another package, of Python itself; C++ frames have no Python file.
bool IsInstalled(const Frame& frame) {
  static constexpr std::string_view kPlaces[] = {"site-packages/", "dist-packages/",  "/lib/python",
                                                 "torch/nn/",      "torch/autograd/", "torch/_",
                                                 "<frozen ",       "torch/utils/",    "torch/optim/"};
  if (!frame.file.ends_with(".py") && !frame.file.starts_with("<")) return true;
  return std::any_of(std::begin(kPlaces), std::end(kPlaces),
                     [&](std::string_view place) { return frame.file.find(place) != std::string::npos; });
}

const Frame* ProgramFrame(const Stack& stack) {
  const auto own = std::find_if(stack.begin(), stack.end(), [](const Frame& frame) { return !IsInstalled(frame); });
  if (own != stack.end()) return &*own;
  const auto python =
      std::find_if(stack.begin(), stack.end(), [](const Frame& frame) { return frame.file.ends_with(".py"); });
  return python != stack.end() ? &*python : nullptr;  // of autograd's threads: C++ alone
}

}  // namespace

std::string ProgramLine(const Stack& stack) {
  const Frame* frame = ProgramFrame(stack);
  return frame == nullptr ? "" : fmt::format("{}:{}", frame->file, frame->line);
}

std::string ProgramFunction(const Stack& stack) {
  const Frame* frame = ProgramFrame(stack);
  return frame == nullptr ? "" : frame->function;
}

std::string ModuleLine(const Stack& stack) {
  const auto found =
      std::find_if(stack.begin(), stack.end(), [](const Frame& frame) { return frame.function == "forward"; });
  return found == stack.end() ? "" : fmt::format("{}:{}", found->file, found->line);
}

bool IsUpdate(const Stack& stack) {
  return std::any_of(stack.begin(), stack.end(), [](const Frame& frame) {
    return frame.function == "step" && frame.file.find("optim") != std::string::npos;
  });
}

std::vector<std::string_view> Categories(const trace::HeldMemory& memory) {
  std::vector<std::string_view> by_stack;
  bool any_frames = false;
  for (const Stack& stack : memory.stacks) {
    by_stack.push_back(ByFrames(stack));
    any_frames = any_frames || !stack.empty();
  }
  const auto stack_of = [&](const Allocation& one) -> const Stack* {
    return one.stack == trace::kNoStack ? nullptr : &memory.stacks[static_cast<std::size_t>(one.stack)];
  };
  std::vector<std::string_view> out(memory.allocations.size(), "unknown");
  std::unordered_set<Bytes> parameters;  // sizes asked for
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Stack* stack = stack_of(memory.allocations[i]);
    if (stack == nullptr || !any_frames) continue;
    const std::string_view told = by_stack[static_cast<std::size_t>(memory.allocations[i].stack)];
    // Autograd's own threads run no Python: what has no frame where others have is of backward.
    out[i] = stack->empty() ? kBackward : told.empty() ? "other" : told;
    if (out[i] == "parameter") parameters.insert(memory.allocations[i].requested);
  }
  // In order of time: the program's own tensors right before a forward pass are its inputs, and what an update made and
  // the next one still finds is state.
  bool forward_comes = false;
  std::int64_t next_update = -1;  // an entry of the history
  for (std::size_t i = out.size(); i-- > 0;) {
    const Allocation& one = memory.allocations[i];
    const Stack* stack = stack_of(one);
    if (out[i] == "activation") forward_comes = true;
    if (out[i] == kBackward || out[i] == "optimizer_state") forward_comes = false;
    if (out[i] == "other" && forward_comes && one.made != trace::kBeforeHistory) out[i] = "input";
    if (out[i] == kBackward) out[i] = parameters.contains(one.requested) ? "gradient" : "temporary";
    if (stack != nullptr && IsUpdate(*stack)) {
      const bool outlives = next_update >= 0 && (one.freed < 0 || one.freed > next_update);
      if (out[i] == "temporary" && outlives && one.made >= 0) out[i] = "optimizer_state";
      if (i == 0 || stack_of(memory.allocations[i - 1]) == nullptr || !IsUpdate(*stack_of(memory.allocations[i - 1]))) {
        next_update = one.made;
      }
    }
  }
  return out;
}

}  // namespace ebbtide::jobs
