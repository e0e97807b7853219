// Reads the options of a MODEL that are a word with something behind it.
#include "model/option_words.h"

#include <charconv>

namespace ebbtide::model {

Result<LibraryVersion> ParseLibraryVersion(std::string_view text) {
  LibraryVersion version;
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  const bool has_minor = major.ec == std::errc() && major.ptr != end && *major.ptr == '.';
  const auto minor = has_minor ? std::from_chars(major.ptr + 1, end, version.minor) : major;
  if (has_minor && minor.ec == std::errc() && (minor.ptr == end || *minor.ptr == '.')) return version;
  return Fail("expected a version as 4.48, found {}", text);
}

Status SetCheckpoint(std::string_view text, ModelOptions& options) {
  options.checkpoint = "";
  options.checkpoint_kind = text == "reentrant" ? CheckpointKind::kReentrant
                            : text == "offload" ? CheckpointKind::kOffload
                                                : CheckpointKind::kPlain;
  if (options.checkpoint_kind != CheckpointKind::kPlain) return {};
  constexpr std::string_view kEvery = "every:";
  if (!text.starts_with(kEvery)) {
    options.checkpoint = text;
    return {};
  }
  std::int64_t every = 0;
  const char* const end = text.data() + text.size();
  const auto number = std::from_chars(text.data() + kEvery.size(), end, every);
  if (number.ec != std::errc() || number.ptr != end || every < 1) {
    return Fail("expected every:N with a positive N, found {}", text);
  }
  options.checkpoint_every = every;
  return {};
}

}  // namespace ebbtide::model
