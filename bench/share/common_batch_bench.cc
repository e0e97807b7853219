// Two, three and four trainings on a GPU of 16 GB, alike and mixed, at the largest common batch. One line each: the
// batch as a share of the largest alone, beside the share that the state of all leaves; throughput over other ways in
// the same simulator; group runs that overlap with a group of another job. A way that does not fit at that batch is
// compared at its own largest one, in samples per second. Fails where sharing is slower than one after the other.
//   bench_share [--no-plans] [MODEL+MODEL... ...]     (--no-plans: the left part alone, which takes minutes, not hours)
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/model.h"
#include "share/baselines/baseline.h"
#include "share/scheduler/common_batch.h"

namespace ebbtide::share {
namespace {

using Names = std::vector<std::string>;

template <class T>
T Must(Result<T> result) {
  if (result) return *std::move(result);
  fmt::print(stderr, "bench_share: {}\n", result.error().message);
  std::exit(2);
}

constexpr const char* kLine = "{:<40} {:>15} {:>5} {:>7} {:>6} {:>7} {:>12} {:>12} {:>12} {:>12} {:>12} {:>6} {:>7}";
constexpr const char* kPlannedLine = " | {:>5} {:>7} {:>12} {:>12} {:>6} {:>7}";

const Names kModels = {"vgg16", "resnet50", "inception_v3", "densenet121", "bert-base"};

std::vector<Names> Mixes() {
  std::vector<Names> out;
  for (const std::size_t jobs : {2, 3, 4}) {
    for (const std::string& model : kModels) out.push_back(Names(jobs, model));
  }
  out.push_back({"resnet50", "vgg16"});
  out.push_back({"resnet50", "densenet121"});
  out.push_back({"inception_v3", "bert-base"});
  out.push_back({"resnet50", "densenet121", "bert-base"});
  out.push_back({"vgg16", "resnet50", "inception_v3", "densenet121"});
  // Much state: adam keeps twice the parameters.
  out.push_back({"bert-large/adam", "bert-base/adam"});
  out.push_back({"bert-large/adam", "bert-large/adam"});
  for (const char* name : {"vgg16/adam", "bert-base/adam", "bert-large/adam/fp16"}) out.push_back(Names(2, name));
  // Many bytes for few FLOPs.
  for (const char* name : {"mobilenet_v2", "mobilenet_v2/sgd/fp16"}) out.push_back(Names(4, name));
  return out;
}

// "resnet50", "bert-base/adam" or "bert-base/adam/fp16".
std::shared_ptr<const Training> TrainingOf(const std::string& name, std::int64_t batch, const DeviceProfile& gpu) {
  static std::map<std::pair<std::string, std::int64_t>, std::shared_ptr<const Training>> made;
  auto& known = made[{name, batch}];
  if (known) return known;
  if (made.size() > 64) made.clear();
  const std::size_t slash = name.find('/'), second = name.find('/', slash == std::string::npos ? slash : slash + 1);
  model::ModelOptions options;
  options.device = model::Device::kCuda;
  options.batch_size = batch;
  if (slash != std::string::npos) options.optimizer = name.substr(slash + 1, second - slash - 1);
  if (second != std::string::npos) options.autocast = DType::kFloat16;
  auto training =
      MakeTraining({.model = name, .batch = batch}, Must(model::LoadModel(name.substr(0, slash), options)), gpu);
  made[{name, batch}] = training;
  return training;
}

std::vector<std::shared_ptr<const Training>> TrainingsOf(const Names& names, const std::vector<std::int64_t>& batches,
                                                         const DeviceProfile& gpu) {
  std::vector<std::shared_ptr<const Training>> out;
  for (std::size_t i = 0; i < names.size(); ++i) out.push_back(TrainingOf(names[i], batches[i], gpu));
  return out;
}

// How many times as fast the mix is: in rounds, or in samples at the other's own largest share of these batches.
std::string Over(const char* name, const Names& names, const CommonBatch& common, const MixOptions& options) {
  const Baseline& baseline = *FindBaseline(name);
  const auto batches_at = [&](std::int64_t permille) {
    std::vector<std::int64_t> out;
    for (const std::int64_t batch : common.batches) out.push_back(std::max<std::int64_t>(1, batch * permille / 1000));
    return out;
  };
  const auto at = [&](std::int64_t permille) {
    return baseline.run(MakeBaselineInput(TrainingsOf(names, batches_at(permille), options.gpu), options));
  };
  const auto round = static_cast<double>(common.mix.together.round);
  if (const BaselineResult same = at(1000); same.fits) {
    return fmt::format("{:.2f}", static_cast<double>(same.together.round) / round);
  }
  std::int64_t low = 0, high = 1000;
  while (high - low > 20) {
    const std::int64_t middle = (low + high) / 2;
    (at(middle).fits ? low : high) = middle;
  }
  if (low == 0) return "none";
  // Batches are whole: the mean over the jobs of what each has of ours.
  double share = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    share += static_cast<double>(batches_at(low)[i]) / static_cast<double>(common.batches[i]);
  }
  share /= static_cast<double>(names.size());
  return fmt::format("{:.2f} at {:.0f} %", static_cast<double>(at(low).together.round) / round / share, 100 * share);
}

bool Show(const Names& names, const DeviceProfile& gpu, bool with_plans) {
  CommonBatchOptions options;
  options.mix = OptionsFor(gpu);
  const TrainingAt at = [&](std::size_t job, std::int64_t batch) -> Result<std::shared_ptr<const Training>> {
    return TrainingOf(names[job], batch, gpu);
  };
  std::optional<CommonBatch> planned;
  if (with_plans) planned = Must(FindCommonBatch(names, at, options));
  options.mix.may_plan = false;
  const CommonBatch common = Must(FindCommonBatch(names, at, options));
  const bool alike = std::adjacent_find(names.begin(), names.end(), std::not_equal_to<>()) == names.end();
  const std::string mix =
      alike ? fmt::format("{} x {}", names.size(), names[0]) : fmt::format("{}", fmt::join(names, "+"));
  if (!common.found()) {
    fmt::print("{:<44} no common batch\n", mix);
    return false;
  }
  double alone = 1;
  for (const Job& job : common.mix.jobs) {
    alone = std::min(alone, static_cast<double>(job.peak()) / static_cast<double>(options.mix.capacity));
  }
  const std::vector<std::int64_t> batches = alike ? std::vector<std::int64_t>{common.batches[0]} : common.batches;
  const auto share_of = [](double share) { return fmt::format("{:.1f}", 100 * share); };
  const auto times = [](double ratio) { return fmt::format("{:.3f}", ratio); };
  const auto overlaps = [](const CommonBatch& of) {
    return fmt::format("{}/{}", of.mix.together.overlapped, of.mix.together.group_runs);
  };
  fmt::print(fmt::runtime(kLine), mix, fmt::format("{}", fmt::join(batches, ",")), share_of(common.share),
             share_of(common.ceiling), fmt::format("{:.0f}", 100 * alone), times(common.mix.speedup()),
             Over("zico", names, common, options.mix), Over("wavelet", names, common, options.mix),
             Over("salus", names, common, options.mix), Over("time-slicing", names, common, options.mix),
             Over("mps", names, common, options.mix), Over("paging", names, common, options.mix), overlaps(common));
  if (planned) {
    fmt::print(fmt::runtime(kPlannedLine), share_of(planned->share), times(planned->mix.speedup()),
               Over("zico", names, *planned, options.mix), Over("time-slicing", names, *planned, options.mix),
               Over("paging", names, *planned, options.mix), overlaps(*planned));
  }
  fmt::print("\n");
  std::fflush(stdout);
  return common.mix.speedup() >= 1 && common.mix.together.overlapped > 0 && (!planned || planned->mix.speedup() >= 1);
}

void ShowPlacements(const DeviceProfile& gpu) {
  fmt::print("height over live bytes of one iteration in a lane, at the peak and in the mean over time\n");
  fmt::print("{:<14} {:>6} {:>12} {:>18} {:>18}\n", "model", "batch", "live peak", "as low as can be", "2 % more room");
  for (const std::string& name : kModels) {
    const auto training = TrainingOf(name, name == "bert-base" ? 16 : 96, gpu);
    const sim::Schedule plain = PlainSchedule(training->workload);
    const Placement tight = PlaceInLane(training->workload, plain, 0);
    const Placement loose = PlaceInLane(training->workload, plain, tight.live_peak + tight.live_peak / 50);
    const PlacementCost low = CostOf(training->workload, tight), high = CostOf(training->workload, loose);
    fmt::print("{:<14} {:>6} {:>12} {:>9.4f} {:>8.3f} {:>9.4f} {:>8.3f}\n", name, training->batch,
               FormatBytes(tight.live_peak), low.peak, low.mean, high.peak, high.mean);
  }
}

}  // namespace

int Main(int argc, char** argv) {
  const DeviceProfile gpu = Must(FindProfile("v100-16gb"));
  std::vector<Names> mixes;
  bool with_plans = true;
  for (int i = 1; i < argc; ++i) {
    Names names;
    const std::string text = argv[i];
    if (text == "--no-plans") {
      with_plans = false;
      continue;
    }
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('+', begin), text.size());
      names.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    mixes.push_back(std::move(names));
  }
  if (mixes.empty()) {
    ShowPlacements(gpu);
    mixes = Mixes();
  }
  fmt::print("\n{}, {}: largest common batch; right of the bar, with plans\n", gpu.name,
             FormatBytes(gpu.memory - gpu.context));
  fmt::print(fmt::runtime(kLine), "", "", "% of", "ceiling", "alone", "over", "over", "over", "over", "over time",
             "over", "over", "groups");
  if (with_plans) fmt::print(fmt::runtime(kPlannedLine), "% of", "over", "over", "over time", "over", "groups");
  fmt::print("\n");
  fmt::print(fmt::runtime(kLine), "mix", "batch", "solo", "%", "takes%", "exclus.", "zico", "wavelet", "salus",
             "slicing", "mps", "paging", "overlap");
  if (with_plans) fmt::print(fmt::runtime(kPlannedLine), "solo", "exclus.", "zico", "slicing", "paging", "overlap");
  fmt::print("\n");
  bool good = true;
  for (const Names& names : mixes) good &= Show(names, gpu, with_plans);
  return good ? 0 : 1;
}

}  // namespace ebbtide::share

int main(int argc, char** argv) { return ebbtide::share::Main(argc, argv); }
