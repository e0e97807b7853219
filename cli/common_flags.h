// Flags that several verbs share: one spelling, one meaning and one way to complain everywhere.
// A verb adds the groups it uses; a flag that it did not add is refused.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "jobs/model.h"
#include "model/model.h"

namespace ebbtide::cli {

// Flags that every verb has.
struct OutputFlags {
  bool json = false;       // one JSON object on standard output instead of tables
  std::string output;      // also write the result to this file; empty: do not
  bool quiet = false;      // nothing on standard error but errors
  bool verbose = false;    // say on standard error what is being done
  std::uint64_t seed = 0;  // of every random choice
  int threads = 0;         // 0: as many as there are processors
};
// `output` says what -o FILE writes; null: the verb has a -o of its own.
inline constexpr const char* kResultFile =
    "Also write the result to FILE: .json the object, .txt the table, .html a page";
inline constexpr const char* kResultWithoutPage = "Also write the result to FILE: .json the object, .txt the table";
void AddOutputFlags(CLI::App& verb, OutputFlags& flags, const char* output = kResultFile);

// What --threads says; without it, one for each processor.
int ThreadsOf(const OutputFlags& flags);
// A -o that may be given several times; `kinds`: what each suffix means.
void AddFilesFlag(CLI::App& verb, std::vector<std::string>& files, const std::string& kinds);

// Flags of verbs that take a MODEL.
struct ModelFlags {
  std::string model;
  model::ModelOptions options;
  std::string checkpoint;                   // as given; options.checkpoint is what it means
  parallel::Layout layout;                  // of verbs that take ranks; else one GPU
  std::vector<const CLI::Option*> choices;  // all that fill in `options`
};

// MODEL, how its shapes are chosen, what its step does, and how to read it.
void AddModelFlags(CLI::App& verb, ModelFlags& flags);
// The shapes, the optimizer and the device alone.
void AddShapeFlags(CLI::App& verb, ModelFlags& flags);

// What a job is told of MODEL. `other_batches`: what --other-batch named.
jobs::ModelRequest RequestOf(const ModelFlags& flags, std::vector<std::string> other_batches = {});

// The shapes, the optimizer and the device that were chosen, as words of a command line that captures or trains them.
std::vector<std::string> ShapeWords(const jobs::ModelRequest& request);

// Fails where it is not the name of a built-in model; `expected` says what else it might have been.
Status CheckBuiltIn(const std::string& name, std::string_view expected = "a built-in model");

// The value of a flag as CLI11 validators want it: an empty string, or what was expected and what was found.
std::string CheckPositive(const std::string& text);
std::string CheckNotNegative(const std::string& text);
CLI::Validator Check(std::string (*check)(const std::string&));

}  // namespace ebbtide::cli
