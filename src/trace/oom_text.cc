// Finds the message by its first words and its sizes by the words around them. Two forms are known: that of torch 2.1
// and later, in sentences, and that of versions before, in brackets.
#include "trace/oom_text.h"

#include <cctype>
#include <charconv>

namespace ebbtide::trace {
namespace {

constexpr std::string_view kFirstWords = "out of memory. Tried to allocate ";
constexpr std::size_t kLongestMessage = 4096;
constexpr std::size_t kMostFrames = 256;

// "2.00 GiB" at the beginning of the text; nullopt: there is none.
std::optional<Bytes> SizeAt(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || number < 0 || number > 1e9) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  while (text.starts_with(' ')) text.remove_prefix(1);
  struct Unit {
    std::string_view name;
    Bytes bytes;
  };
  for (const Unit& unit : {Unit{"GiB", kGiB}, Unit{"MiB", kMiB}, Unit{"KiB", kKiB}, Unit{"bytes", 1}}) {
    if (text.starts_with(unit.name)) return static_cast<Bytes>(number * static_cast<double>(unit.bytes) + 0.5);
  }
  return std::nullopt;
}

std::optional<Bytes> SizeAfter(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  return at == std::string_view::npos ? std::nullopt : SizeAt(text.substr(at + words.size()));
}

// The size that ends right before `words`: "3.95 GiB total capacity".
std::optional<Bytes> SizeBefore(std::string_view text, std::string_view words) {
  const std::size_t end = text.find(words);
  if (end == std::string_view::npos) return std::nullopt;
  // Two words back: the unit, then the number.
  std::size_t begin = end;
  for (int spaces = 0; begin > 0; --begin) {
    const char c = text[begin - 1];
    if (c == ' ' && ++spaces == 2) break;
    if (c == '(' || c == ';') break;
  }
  return SizeAt(text.substr(begin, end - begin));
}

// "Process 123 has 20.1 GiB memory in use." of each; this process's own begins with "this process has".
std::optional<Bytes> OfOtherProcesses(std::string_view text) {
  std::optional<Bytes> sum;
  for (std::size_t at = text.find("Process "); at != std::string_view::npos; at = text.find("Process ", at + 1)) {
    const std::string_view rest = text.substr(at, 80);
    if (const auto bytes = SizeAfter(rest, " has ")) sum = sum.value_or(0) + *bytes;
  }
  return sum;
}

// `  File "train.py", line 12, in main`
std::optional<Frame> FrameOf(std::string_view line) {
  const std::size_t at = line.find("File \"");
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + 6);
  const std::size_t quote = line.find("\", line ");
  if (quote == std::string_view::npos) return std::nullopt;
  Frame frame;
  frame.file = line.substr(0, quote);
  line.remove_prefix(quote + 8);
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), frame.line);
  if (error != std::errc()) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  if (line.starts_with(", in ")) frame.function = line.substr(5);
  while (!frame.function.empty() && std::isspace(static_cast<unsigned char>(frame.function.back())) != 0) {
    frame.function.pop_back();
  }
  return frame;
}

OomText Parse(std::string_view text) {
  OomText out;
  out.requested = SizeAfter(text, kFirstWords).value_or(0);
  const std::size_t gpu = text.find("GPU ");
  if (gpu != std::string_view::npos) {
    for (std::size_t i = gpu + 4; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0; ++i) {
      out.gpu += text[i];
    }
  }
  if (const auto capacity = SizeBefore(text, " total capacity")) {  // torch 2.0 and before
    out.capacity = capacity;
    out.allocated = SizeBefore(text, " already allocated");
    out.device_free = SizeBefore(text, " free;");
    out.reserved = SizeBefore(text, " reserved in total by PyTorch");
    return out;
  }
  out.capacity = SizeAfter(text, "total capacity of ");  // "capacty" until torch 2.1
  if (!out.capacity) out.capacity = SizeAfter(text, "total capacty of ");
  out.device_free = SizeAfter(text, "of which ");
  out.in_process = SizeAfter(text, "this process has ");
  out.others = OfOtherProcesses(text);
  out.allocated = SizeAfter(text, "Of the allocated memory ");
  const std::size_t unused = text.find("is allocated by PyTorch");
  if (out.allocated && unused != std::string_view::npos) {
    std::string_view rest = text.substr(unused);
    const std::size_t end = rest.find("is reserved by PyTorch but unallocated");
    if (end != std::string_view::npos) {
      if (const auto idle = SizeBefore(rest, " is reserved by PyTorch but unallocated")) {
        out.reserved = *out.allocated + *idle;
      }
    }
  }
  return out;
}

}  // namespace

std::vector<OomText> FindOomTexts(std::string_view log) {
  std::vector<OomText> found;
  Stack traceback;  // outermost first, as a log has it
  std::int64_t number = 0;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    const std::string_view line = log.substr(at, end - at);
    ++number;
    if (line.find("Traceback (most recent call last)") != std::string_view::npos) {
      traceback.clear();
    } else if (auto frame = FrameOf(line); frame && traceback.size() < kMostFrames) {
      traceback.push_back(*std::move(frame));
    }
    if (line.find(kFirstWords) != std::string_view::npos) {
      // A message may be wrapped: its sentences go on in the lines behind.
      OomText text = Parse(log.substr(at, kLongestMessage));
      text.line = number;
      text.stack.assign(traceback.rbegin(), traceback.rend());
      found.push_back(std::move(text));
      traceback.clear();
    }
    at = end + 1;
  }
  return found;
}

}  // namespace ebbtide::trace
