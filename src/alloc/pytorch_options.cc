// Parses the string by torch's own grammar, and rounds requests by what it says.
#include "alloc/pytorch_options.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <vector>

#include "base/json_text.h"
#include "base/nearest.h"

namespace ebbtide::alloc {
namespace {

constexpr Bytes kQuantum = 512;
constexpr Bytes kLargestMebibytes = Bytes{1} << 40;

// Of torch 2.15 too, but of pinned host memory, of locks, of errors or of graphs.
constexpr std::string_view kWithoutEffect[] = {
    "pinned_use_background_threads",  "pinned_use_cuda_host_register", "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb", "pinned_max_round_threshold_mb", "pinned_max_cached_size_mb",
    "pinned_free_catch_all",          "release_lock_on_cudamalloc",    "graph_capture_record_stream_reuse",
    "throw_on_cudamalloc_oom",        "expandable_segments_reserve",   "expandable_segments_reserve_by_class"};

using Tokens = std::vector<std::string_view>;

Tokens Tokenize(const std::string& text) {
  Tokens tokens;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const bool special = i == text.size() || text[i] == ',' || text[i] == ':' || text[i] == '[' || text[i] == ']';
    if (!special) continue;
    if (i > begin) tokens.push_back(std::string_view(text).substr(begin, i - begin));
    if (i < text.size()) tokens.push_back(std::string_view(text).substr(i, 1));
    begin = i + 1;
  }
  return tokens;
}

template <class Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// One option: its name, and the tokens of its value without the brackets.
struct Setting {
  std::string_view name;
  Tokens value;
  bool list = false;

  std::string Shown() const {
    std::string text;
    for (const std::string_view token : value) text += token;
    return Quoted(list ? "[" + text + "]" : text);
  }
};

tl::unexpected<Error> Expected(const Setting& setting, std::string_view what) {
  return Fail("{}: expected {}, found {}", setting.name, what, setting.Shown());
}

Result<std::vector<Setting>> Settings(const Tokens& tokens) {
  std::vector<Setting> settings;
  for (std::size_t i = 0; i < tokens.size();) {
    if (tokens[i] == ",") {  // torch takes empty places
      ++i;
      continue;
    }
    Setting setting{.name = tokens[i], .value = {}};
    if (setting.name == ":" || setting.name == "[" || setting.name == "]") {
      return Fail("expected the name of an option, found {}", Quoted(setting.name));
    }
    if (++i == tokens.size() || tokens[i] != ":") return Fail("{}: expected a ':' behind it", Quoted(setting.name));
    if (++i == tokens.size()) return Fail("{}: expected a value behind the ':'", setting.name);
    if (tokens[i] == "[") {
      setting.list = true;
      while (++i < tokens.size() && tokens[i] != "]") setting.value.push_back(tokens[i]);
      if (i == tokens.size()) return Fail("{}: expected a ']' at the end of the list", setting.name);
    } else {
      setting.value.push_back(tokens[i]);
    }
    ++i;
    if (i < tokens.size() && tokens[i] != ",") {
      return Fail("{}: expected a ',' behind {}, found {}", setting.name, setting.Shown(), Quoted(tokens[i]));
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

Status SetBool(const Setting& setting, bool& out) {
  if (setting.list || (setting.value[0] != "True" && setting.value[0] != "False")) {
    return Expected(setting, "True or False");
  }
  out = setting.value[0] == "True";
  return {};
}

Status SetMebibytes(const Setting& setting, Bytes least, Bytes& out) {
  const auto number = setting.list ? std::nullopt : ParseNumber<Bytes>(setting.value[0]);
  if (!number || *number < least || *number > kLargestMebibytes) {
    return Expected(setting, fmt::format("a whole number of MiB from {} on", least));
  }
  out = *number * kMiB;
  return {};
}

Status SetShare(const Setting& setting, bool one_is_allowed, double& out) {
  const auto number = setting.list ? std::nullopt : ParseNumber<double>(setting.value[0]);
  if (!number || !(*number > 0) || *number > 1 || (*number == 1 && !one_is_allowed)) {
    return Expected(setting, one_is_allowed ? "a number above 0 and up to 1" : "a number between 0 and 1");
  }
  out = *number;
  return {};
}

std::optional<std::size_t> ClassOfMebibytes(Bytes mebibytes) {
  if (mebibytes <= 0 || !std::has_single_bit(static_cast<std::uint64_t>(mebibytes))) return std::nullopt;
  const int power = std::countr_zero(static_cast<std::uint64_t>(mebibytes));
  return std::min<std::size_t>(static_cast<std::size_t>(power), PytorchOptions::kSizeClasses - 1);
}

std::optional<Bytes> Divisions(std::string_view text) {
  const auto number = ParseNumber<Bytes>(text);
  const bool fits = number && *number >= 0 && *number <= (Bytes{1} << 30) &&
                    (*number == 0 || std::has_single_bit(static_cast<std::uint64_t>(*number)));
  return fits ? number : std::nullopt;
}

// "8" for all sizes, or "[256:1,512:2,>:8]": for sizes in MiB.
Status SetDivisions(const Setting& setting, std::array<Bytes, PytorchOptions::kSizeClasses>& out) {
  constexpr std::string_view kWhat = "a power of two, or a list like [256:1,512:2,>:8] with powers of two";
  if (!setting.list) {
    const auto divisions = Divisions(setting.value[0]);
    if (!divisions) return Expected(setting, kWhat);
    out.fill(*divisions);
    return {};
  }
  std::size_t last = 0;
  for (std::size_t i = 0; i < setting.value.size(); i += 4) {
    if (i + 3 > setting.value.size() || setting.value[i + 1] != ":") return Expected(setting, kWhat);
    const auto divisions = Divisions(setting.value[i + 2]);
    const bool rest = setting.value[i] == ">";
    const auto size =
        rest ? std::optional(out.size() - 1) : ClassOfMebibytes(ParseNumber<Bytes>(setting.value[i]).value_or(0));
    if (!divisions || !size) return Expected(setting, kWhat);
    if (rest) {
      for (std::size_t c = last + 1; c < out.size(); ++c) out[c] = *divisions;
    } else {
      // The first size speaks for all below it too; others only for themselves.
      for (std::size_t c = i == 0 ? 0 : *size; c <= *size; ++c) out[c] = *divisions;
      last = *size;
    }
    if (i + 3 < setting.value.size() && setting.value[i + 3] != ",") return Expected(setting, kWhat);
  }
  return {};
}

Status Apply(const Setting& setting, PytorchOptions& options) {
  if (setting.value.empty()) return Expected(setting, "a value");
  if (setting.name == "backend") {
    if (setting.value[0] == "native") {
      options.backend = PytorchOptions::Backend::kNative;
    } else if (setting.value[0] == "cudaMallocAsync") {
      options.backend = PytorchOptions::Backend::kCudaMallocAsync;
    } else {
      return Expected(setting, "native or cudaMallocAsync");
    }
    return {};
  }
  if (setting.name == "expandable_segments") return SetBool(setting, options.expandable_segments);
  if (setting.name == "max_split_size_mb") {
    return SetMebibytes(setting, options.large_segment_size / kMiB, options.max_split_size);
  }
  if (setting.name == "max_non_split_rounding_mb") {
    return SetMebibytes(setting, options.large_segment_size / kMiB, options.max_non_split_rounding);
  }
  if (setting.name == "large_segment_size_mb") return SetMebibytes(setting, 0, options.large_segment_size);
  if (setting.name == "roundup_power2_divisions") return SetDivisions(setting, options.roundup_power2_divisions);
  if (setting.name == "garbage_collection_threshold") {
    return SetShare(setting, false, options.garbage_collection_threshold);
  }
  if (setting.name == "per_process_memory_fraction") {
    return SetShare(setting, true, options.per_process_memory_fraction);
  }
  std::vector<std::string> known = {"backend",
                                    "expandable_segments",
                                    "max_split_size_mb",
                                    "max_non_split_rounding_mb",
                                    "large_segment_size_mb",
                                    "roundup_power2_divisions",
                                    "garbage_collection_threshold",
                                    "per_process_memory_fraction"};
  for (const std::string_view name : kWithoutEffect) {
    if (setting.name == name) return {};
    known.emplace_back(name);
  }
  return Fail("{}: no option of PyTorch's allocator{}", Quoted(setting.name), DidYouMean(setting.name, known));
}

}  // namespace

Result<PytorchOptions> ParsePytorchOptions(std::string_view text) {
  std::string dense;
  for (const char c : text) {
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') dense += c;
  }
  const Tokens tokens = Tokenize(dense);
  EBB_ASSIGN_OR_RETURN(const std::vector<Setting> settings, Settings(tokens));
  PytorchOptions options;
  for (const Setting& setting : settings) EBB_RETURN_IF_ERROR(Apply(setting, options));
  return options;
}

Bytes RoundRequest(const PytorchOptions& options, Bytes bytes) {
  if (bytes < kQuantum) return kQuantum;
  const int log2 = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes))) - 1;
  const int size_class = std::clamp(log2 - 20, 0, static_cast<int>(PytorchOptions::kSizeClasses) - 1);
  const Bytes divisions = options.roundup_power2_divisions[static_cast<std::size_t>(size_class)];
  if (divisions > 1 && bytes > kQuantum * divisions) {
    if (std::has_single_bit(static_cast<std::uint64_t>(bytes))) return bytes;
    const Bytes step = (Bytes{1} << log2) / divisions;
    if (step > 0) return (bytes + step - 1) / step * step;
  }
  return (bytes + kQuantum - 1) / kQuantum * kQuantum;
}

}  // namespace ebbtide::alloc
