#include "plan/policy.h"

#include "base/nearest.h"

namespace ebbtide::plan {

const std::vector<Policy>& Policies() {
  static const std::vector<Policy> policies{
      {"home", "keep, swap or recompute each storage, by a swarm over the whole model", RunHome},
      {"none", "keep everything", RunNone},
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
