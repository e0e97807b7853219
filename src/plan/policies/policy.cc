// The table of policies.
#include "plan/policies/policy.h"

#include "base/nearest.h"

namespace ebbtide::plan {

const std::vector<Policy>& Policies() {
  static const std::vector<Policy> policies{
      {"home", "keep, swap or recompute each storage, by a swarm over the whole model", RunHome},
      {"none", "keep everything", RunNone},
      {"vdnn-all", "swap the inputs of all layers", RunVdnnAll},
      {"vdnn-conv", "swap the inputs of convolutions", RunVdnnConv},
      {"vdnn-dyn", "the first of none, vdnn-conv and vdnn-all that fits", RunVdnnDyn},
      {"superneurons", "recompute cheap layers, spill the others to the host", RunSuperNeurons},
      {"capuchin", "swap what has most free time, then swap or recompute by cost", RunCapuchin},
      {"checkpoint-sqrt", "recompute segments of about sqrt(n) layers", RunCheckpointSqrt},
      {"dtr", "evict by cost, size and staleness, recompute on demand", RunDtr},
      {"exact", "the best there is, for small graphs: an integer program, or every choice", RunExact, kExactOps},
  };
  return policies;
}

Result<const Policy*> FindPolicy(std::string_view name) {
  std::vector<std::string> names;
  for (const Policy& policy : Policies()) {
    if (policy.name == name) return &policy;
    names.emplace_back(policy.name);
  }
  return Fail("no policy is called {}{}", name, DidYouMean(name, names));
}

}  // namespace ebbtide::plan
