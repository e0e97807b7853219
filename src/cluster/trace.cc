// Tells the forms of traces apart by their headers, and reads each by the names of its columns.
#include "cluster/trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/csv.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/memory_size.h"
#include "cluster/carma_models.h"

namespace ebbtide::cluster {
namespace {

constexpr std::int64_t kMostGpus = 64;

// A number from `least` on; an empty cell is none.
std::optional<double> Number(CsvReader& in, std::optional<std::size_t> column, const char* what, double least) {
  const std::string_view text = in.Text(column);
  if (text.empty()) return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number) || number < least) {
    in.Fail(fmt::format("{}: expected a number from {} on, found {}", what, least, Quoted(text)));
    return std::nullopt;
  }
  return number;
}

std::int64_t WholeOr(CsvReader& in, std::optional<std::size_t> column, const char* what, std::int64_t least,
                     std::int64_t otherwise) {
  return in.Text(column).empty() ? otherwise : in.Integer(column, what, least);
}

std::optional<Bytes> Memory(CsvReader& in, std::optional<std::size_t> column, const char* what) {
  const std::string_view text = in.Text(column);
  if (text.empty()) return std::nullopt;
  const Result<Bytes> bytes = ParseMemory(std::string(text));
  if (bytes && *bytes > 0) return *bytes;
  in.Fail(fmt::format("{}: expected a size such as 12GiB, found {}", what, Quoted(text)));
  return std::nullopt;
}

Result<Trace> ParseOwn(CsvReader& in) {
  const auto arrival = in.Column("arrival"), model = in.Column("model"), batch = in.Column("batch"),
             work = in.Column("work"), name = in.Column("name"), gpus = in.Column("gpus"),
             optimizer = in.Column("optimizer"), image = in.Column("image_size"), tokens = in.Column("seq_len"),
             classes = in.Column("classes"), seconds = in.Column("seconds"), memory = in.Column("memory"),
             declared = in.Column("declared");
  if (!arrival || !model || !batch || !work) {
    return in.Wrong("expected a header with the columns arrival,model,batch,work, or one of a CARMA or openb trace");
  }
  Trace trace{.form = "ebbtide", .name = {}, .jobs = {}, .notes = {}};
  while (in.Next()) {
    TraceJob job;
    job.line = in.line();
    job.name = in.Text(name), job.model = in.Text(model), job.optimizer = in.Text(optimizer);
    job.arrival = Number(in, arrival, "arrival, in seconds", 0).value_or(0);
    job.batch = in.Integer(batch, "batch: a whole number from 1 on", 1);
    job.iterations = Number(in, work, "work, in iterations", 1);
    job.seconds = Number(in, seconds, "seconds, of the job alone", 0);
    job.gpus = static_cast<int>(WholeOr(in, gpus, "gpus: a whole number from 1 on", 1, 1));
    job.image_size = WholeOr(in, image, "image_size: a whole number from 1 on", 1, 0);
    job.seq_len = WholeOr(in, tokens, "seq_len: a whole number from 1 on", 1, 0);
    job.classes = WholeOr(in, classes, "classes: a whole number from 1 on", 1, 0);
    job.memory = Memory(in, memory, "memory");
    job.declared = Memory(in, declared, "declared").value_or(0);
    if (!in.ok()) break;
    if (job.gpus > kMostGpus) return in.Wrong(fmt::format("gpus: expected at most {}", kMostGpus));
    if (job.model.empty()) return in.Wrong("model: expected what `ebbtide estimate` takes as a MODEL");
    if (!job.iterations) return in.Wrong("work: expected a number of iterations");
    if (job.name.empty()) job.name = fmt::format("{}:{}", job.model, job.batch);
    trace.jobs.push_back(std::move(job));
  }
  return trace;
}

Result<Trace> ParseCarma(CsvReader& in, const std::string& wanted) {
  const auto which = in.Column("trace"), arrival = in.Column("arrival_s"), task = in.Column("task"),
             model = in.Column("model"), optimizer = in.Column("optimizer"), input = in.Column("input"),
             batch = in.Column("batch"), epochs = in.Column("epochs"), seconds = in.Column("solo_seconds");
  Trace trace{.form = "carma", .name = wanted, .jobs = {}, .notes = {}};
  std::vector<std::string> names;
  std::map<std::string, int> noted;
  while (in.Next()) {
    const std::string of(in.Text(which));
    if (std::ranges::find(names, of) == names.end()) names.push_back(of);
    if (trace.name.empty()) trace.name = of;
    if (of != trace.name) continue;
    TraceJob job;
    job.line = in.line();
    job.name = in.Text(task), job.optimizer = in.Text(optimizer);
    job.arrival = Number(in, arrival, "arrival_s", 0).value_or(0);
    job.seconds = Number(in, seconds, "solo_seconds", 0);
    const double passes = Number(in, epochs, "epochs", 0).value_or(1);
    job.batch = WholeOr(in, batch, "batch: a whole number from 1 on", 1, 0);
    if (!in.ok()) break;
    const CarmaModel* known = FindCarmaModel(in.Text(model), in.Text(input));
    if (known == nullptr) {
      return in.Wrong(fmt::format("model: expected one of CARMA's workloads, found {} with input {}",
                                  Quoted(in.Text(model)), Quoted(in.Text(input))));
    }
    job.model = known->model;
    job.image_size = known->image_size, job.seq_len = known->seq_len, job.classes = known->classes;
    if (known->memory > 0) job.memory = known->memory;
    if (job.batch == 0) job.batch = known->batch;
    if (known->samples > 0 && job.batch > 0) {
      job.iterations = passes * std::ceil(static_cast<double>(known->samples) / static_cast<double>(job.batch));
    }
    if (!job.optimizer.empty() && known->optimizer[0] != '\0') job.optimizer = known->optimizer;
    if (known->note[0] != '\0') ++noted[known->note];
    trace.jobs.push_back(std::move(job));
  }
  for (const auto& [note, jobs] : noted) trace.notes.push_back(fmt::format("{} jobs: {}", jobs, note));
  if (in.ok() && trace.jobs.empty()) {
    return Fail("--trace {}: expected {}", wanted, fmt::join(names, " or "));
  }
  if (wanted.empty() && names.size() > 1) {
    trace.notes.insert(trace.notes.begin(), fmt::format("the file has the traces {}; this is {} (--trace chooses)",
                                                        fmt::join(names, ", "), trace.name));
  }
  return trace;
}

Result<Trace> ParseOpenb(CsvReader& in) {
  const auto name = in.Column("name"), cpu = in.Column("cpu_milli"), memory = in.Column("memory_mib"),
             gpus = in.Column("num_gpu"), milli = in.Column("gpu_milli"), spec = in.Column("gpu_spec"),
             created = in.Column("creation_time"), deleted = in.Column("deletion_time"),
             scheduled = in.Column("scheduled_time");
  Trace trace{.form = "openb", .name = {}, .jobs = {}, .notes = {}};
  while (in.Next()) {
    TraceJob job;
    job.line = in.line();
    job.name = in.Text(name);
    job.cpu_milli = in.Integer(cpu, "cpu_milli: a whole number from 0 on", 0);
    job.memory_mib = in.Integer(memory, "memory_mib: a whole number from 0 on", 0);
    job.gpus =
        static_cast<int>(std::min<std::int64_t>(in.Integer(gpus, "num_gpu: a whole number from 0 on", 0), kMostGpus));
    job.gpu_milli = in.Integer(milli, "gpu_milli: a whole number from 0 on", 0);
    job.arrival = static_cast<double>(in.Integer(created, "creation_time: a whole number from 0 on", 0));
    const auto end = static_cast<double>(in.Integer(deleted, "deletion_time: a whole number from 0 on", 0));
    job.never_ran = in.Text(scheduled).empty();
    const double begin = Number(in, scheduled, "scheduled_time", 0).value_or(job.arrival);
    if (!in.ok()) break;
    if (!in.Text(spec).empty())
      return in.Wrong("gpu_spec: expected an empty one; demands for types of GPUs are not read");
    if (job.gpus > 0 && (job.gpu_milli < 1 || job.gpu_milli > kWholeGpu)) {
      return in.Wrong("gpu_milli: expected 1 to 1000 where num_gpu is not 0");
    }
    if (job.gpus == 0) job.gpu_milli = 0;
    job.seconds = std::max(0.0, end - begin);
    trace.jobs.push_back(std::move(job));
  }
  return trace;
}

}  // namespace

Result<Trace> ParseTrace(std::string_view text, const std::string& path, const std::string& name) {
  CsvReader in(text, path);
  if (!in.ok()) return tl::unexpected<Error>(in.error());
  const bool carma = in.Column("solo_seconds") && in.Column("arrival_s");
  const bool openb = in.Column("gpu_milli") && in.Column("num_gpu");
  if (!name.empty() && !carma) return Fail("--trace {}: {} has but one trace", name, path);
  Result<Trace> trace = carma ? ParseCarma(in, name) : openb ? ParseOpenb(in) : ParseOwn(in);
  if (!in.ok()) return tl::unexpected<Error>(in.error());
  if (!trace) return trace;
  if (trace->jobs.empty()) return Fail("{}: expected at least one row behind the header", path);
  std::ranges::stable_sort(trace->jobs, {}, &TraceJob::arrival);
  return trace;
}

Result<Trace> ReadTrace(const std::string& path, const std::string& name) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kTraceFileLimit));
  return ParseTrace(text, path, name);
}

Result<Hardware> ReadNodes(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kTraceFileLimit));
  CsvReader in(text, path);
  const auto cpu = in.Column("cpu_milli"), memory = in.Column("memory_mib"), gpus = in.Column("gpu"),
             model = in.Column("model");
  if (!in.ok()) return tl::unexpected<Error>(in.error());
  if (!cpu || !memory || !gpus || !model) {
    return in.Wrong("expected a header with the columns cpu_milli,memory_mib,gpu,model");
  }
  Hardware hardware;
  while (in.Next()) {
    const std::string name(in.Text(model));
    const auto known = std::ranges::find(hardware.types, name, &GpuType::name);
    const auto type = static_cast<std::size_t>(known - hardware.types.begin());
    if (known == hardware.types.end()) hardware.types.push_back({.name = name});
    Node node{.type = type};
    node.gpus =
        static_cast<int>(std::min<std::int64_t>(in.Integer(gpus, "gpu: a whole number from 0 on", 0), kMostGpus));
    node.cpu_milli = in.Integer(cpu, "cpu_milli: a whole number from 0 on", 0);
    node.memory_mib = in.Integer(memory, "memory_mib: a whole number from 0 on", 0);
    hardware.nodes.push_back(node);
  }
  if (!in.ok()) return tl::unexpected<Error>(in.error());
  if (hardware.nodes.empty()) return Fail("{}: expected at least one node", path);
  return hardware;
}

}  // namespace ebbtide::cluster
