// A trace of jobs through placement policies: the question of `ebbtide cluster`, and its answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/simulate.h"
#include "cluster/trace.h"
#include "jobs/context.h"

namespace ebbtide::jobs {

struct ClusterRequest {
  std::string path;                        // a .csv[.gz]: our own form, CARMA's or openb's
  std::string trace = {};                  // of a file with several; empty: the first
  std::string nodes;                       // "4x8xa100-40gb", or a .csv[.gz] of openb's form
  std::vector<std::string> policies = {};  // empty: all
  // In place of a replay: jobs are drawn from the trace until they ask for so much of the cluster, and never end.
  std::optional<double> fill = {};
  double memory_error = 0;  // what jobs take differs from what is estimated by up to this share, either way
  double time_error = 0;    // how long jobs take alone is predicted wrongly by up to this share of it, either way
};

struct PlacementOutcome {
  std::string name, rule;
  cluster::Outcome outcome;
};

struct ClusterResult {
  std::string path, form, trace, nodes;
  cluster::Hardware hardware;
  cluster::Workload workload;
  std::optional<double> fill;
  std::vector<std::string> notes;  // what was assumed
  std::vector<PlacementOutcome> policies;

  // The outcome of the policy; null where it was not asked for.
  const PlacementOutcome* Find(std::string_view name) const;
};

// Models are estimated once for each batch and each GPU. A model that cannot be is an error that names its line.
Result<ClusterResult> Cluster(const ClusterRequest& request, const JobContext& context);

}  // namespace ebbtide::jobs
