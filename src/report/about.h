// What a page is of: the head that every page has, whatever it shows.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "report/json.h"

namespace ebbtide::report {

enum class Verdict { kNone, kGood, kWarning, kBad };

struct About {
  std::vector<std::pair<std::string, std::string>> facts = {};  // "batch", "64"; in the order in which they are shown
  Verdict verdict = Verdict::kNone;
  std::string says = {};  // the verdict in words: "fits rtx3060: 9.1 GiB of 12 GiB"

  // Leaves a fact out whose value is empty.
  void Add(const std::string& name, const std::string& value) {
    if (!value.empty()) facts.emplace_back(name, value);
  }
};

// The type of most of the parameters' bytes, and autocast's where there is one: "float32, autocast bfloat16". Empty for
// a step without parameters.
std::string DtypeText(const TrainingGraph& graph);

// Model, batch, optimizer, type, framework and the rest of what the graph's meta tells.
void AddStepFacts(About& about, const std::string& model, const TrainingGraph& graph);

// Of a result as a verb prints it, when nothing else is at hand: all that can be told from its fields.
About AboutResult(const Json& result);

Json AboutJson(const About& about);

}  // namespace ebbtide::report
