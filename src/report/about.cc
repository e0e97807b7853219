// Gathers the head of a page from a graph, or from a result's fields.
#include "report/about.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "base/units.h"

namespace ebbtide::report {
namespace {

// Keys of a graph's meta, as pages call them. Others are shown by their own names.
constexpr std::array<std::pair<const char*, const char*>, 3> kFirst = {
    {{"batch_size", "batch"}, {"optimizer", "optimizer"}, {"dtype", "dtype"}}};

void AddMeta(About& about, const std::map<std::string, std::string>& meta, const std::string& dtype) {
  for (const auto& [key, name] : kFirst) {
    if (std::string_view(key) == "dtype" && !dtype.empty()) {
      about.Add(name, dtype);
    } else if (const auto found = meta.find(key); found != meta.end()) {
      about.Add(name, found->second);
    }
  }
  for (const auto& [key, value] : meta) {
    const auto is_key = [&key = key](const auto& row) { return key == row.first; };
    if (std::none_of(kFirst.begin(), kFirst.end(), is_key) && key != "autocast" && key != "loss") about.Add(key, value);
  }
}

std::string TextOf(const Json& result, const char* name) {
  if (!result.contains(name)) return "";
  const Json& value = result[name];
  if (value.is_string()) return value;
  return value.is_number_integer() ? fmt::format("{}", value.get<std::int64_t>()) : "";
}

bool IsTrue(const Json& result, const char* name) { return result.contains(name) && result[name] == true; }
bool IsBool(const Json& result, const char* name) { return result.contains(name) && result[name].is_boolean(); }

void Judge(About& about, bool good, const char* yes, const char* no) {
  about.verdict = good ? Verdict::kGood : Verdict::kBad;
  about.says = good ? yes : no;
}

void JudgeAdvice(About& about, const Json& result) {
  if (IsTrue(result, "fits_already")) return Judge(about, true, "fits as it is", "");
  const bool helps = result.contains("proposals") && result["proposals"].is_array() && !result["proposals"].empty() &&
                     result["proposals"].front().is_object() && IsTrue(result["proposals"].front(), "fits");
  Judge(about, false, "",
        helps ? "does not fit as it is, but with the measures below" : "nothing that was tried makes it fit");
  if (helps) about.verdict = Verdict::kWarning;
}

}  // namespace

std::string DtypeText(const TrainingGraph& graph) {
  std::map<std::string, Bytes> bytes;
  std::vector<bool> seen(graph.storages.size(), false);
  for (const Tensor& tensor : graph.tensors) {
    const Storage& storage = graph.storage(tensor.storage);
    if (storage.kind != StorageKind::kParameter || seen[tensor.storage.index()]) continue;
    seen[tensor.storage.index()] = true;
    bytes[std::string(Name(tensor.dtype))] += storage.bytes;
  }
  std::string most;
  for (const auto& [name, count] : bytes) {
    if (most.empty() || count > bytes[most]) most = name;
  }
  const auto autocast = graph.meta.find("autocast");
  if (autocast != graph.meta.end()) most += (most.empty() ? "autocast " : ", autocast ") + autocast->second;
  return most;
}

void AddStepFacts(About& about, const std::string& model, const TrainingGraph& graph) {
  about.Add("model", model);
  AddMeta(about, graph.meta, DtypeText(graph));
}

About AboutResult(const Json& result) {
  About about;
  about.Add("model", TextOf(result, "model"));
  if (TextOf(result, "model").empty()) about.Add("model", TextOf(result, "name"));
  std::map<std::string, std::string> meta;
  if (result.contains("meta") && result["meta"].is_object()) {
    for (const auto& [key, value] : result["meta"].items()) {
      if (value.is_string()) meta[key] = value;
    }
  }
  if (const std::string batch = TextOf(result, "batch_size"); !batch.empty()) meta["batch_size"] = batch;
  if (const std::string optimizer = TextOf(result, "optimizer"); !optimizer.empty()) meta["optimizer"] = optimizer;
  AddMeta(about, meta, TextOf(result, "dtype"));
  about.Add("GPU", TextOf(result, "gpu"));
  about.Add("policy", TextOf(result, "policy"));
  about.Add("torch", TextOf(result, "torch"));
  if (result.contains("safe_bytes") && result["safe_bytes"].is_number_integer()) {
    about.Add("safe figure", FormatBytes(result["safe_bytes"]));
  }
  if (IsTrue(result, "oom")) {
    Judge(about, false, "", "out of memory");
  } else if (IsBool(result, "fits")) {
    Judge(about, IsTrue(result, "fits"), "fits", "does not fit");
    if (IsTrue(result, "fits") && IsBool(result, "safe_fits") && !IsTrue(result, "safe_fits")) {
      about.verdict = Verdict::kWarning;
      about.says = "fits, but not safely";
    }
  } else if (IsBool(result, "fits_already")) {
    JudgeAdvice(about, result);
  } else if (IsBool(result, "feasible")) {
    Judge(about, IsTrue(result, "feasible"), "feasible", "infeasible");
  } else if (IsBool(result, "valid")) {
    Judge(about, IsTrue(result, "valid"), "valid", "not valid");
  }
  return about;
}

Json AboutJson(const About& about) {
  Json facts = Json::array();
  for (const auto& [name, value] : about.facts) facts.push_back({name, value});
  constexpr std::array kNames = {"none", "good", "warning", "bad"};
  return {{"facts", facts}, {"verdict", kNames[static_cast<std::size_t>(about.verdict)]}, {"says", about.says}};
}

}  // namespace ebbtide::report
