// A verb of the command line. Each has one file with one function that adds it to the program; main.cc lists them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ebbtide::cli {

// What the program's exit tells a script. A program that we start on the user's behalf may end with codes of its own.
inline constexpr int kSuccess = 0;     // done; it fits, it is feasible
inline constexpr int kInfeasible = 1;  // done; it does not fit, it is infeasible
inline constexpr int kBadInput = 2;    // bad usage or bad input: one line on standard error says which

struct Verb {
  CLI::App* app = nullptr;           // its flags, owned by the program
  std::function<Result<int>()> run;  // called after they were parsed: the exit code, or what is wrong with the input
};

Verb AddModels(CLI::App& program);
Verb AddInspect(CLI::App& program);
Verb AddEstimate(CLI::App& program);
Verb AddFit(CLI::App& program);
Verb AddPlan(CLI::App& program);
Verb AddSimulate(CLI::App& program);
Verb AddShare(CLI::App& program);
Verb AddCluster(CLI::App& program);
Verb AddCapture(CLI::App& program);
Verb AddProfile(CLI::App& program);
Verb AddTrain(CLI::App& program);
Verb AddVerify(CLI::App& program);
Verb AddReport(CLI::App& program);
Verb AddHelp(CLI::App& program);  // `program` has to outlive it, as for the next
Verb AddCompletion(CLI::App& program);
Verb AddGpus(CLI::App& program);
Verb AddCache(CLI::App& program);
Verb AddReplay(CLI::App& program);
Verb AddExplain(CLI::App& program);
Verb AddAdvise(CLI::App& program);
Verb AddPack(CLI::App& program);
// `command`: the words behind "--".
Verb AddDryrun(CLI::App& program, const std::vector<std::string>& command);
Verb AddRun(CLI::App& program, const std::vector<std::string>& command);

}  // namespace ebbtide::cli
