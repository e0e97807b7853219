// Eighths of a character cell, or characters of ASCII where the terminal has no blocks.
#include "report/text/plot.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace ebbtide::report {
namespace {

constexpr std::array<std::string_view, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 9> kAscii = {" ", ".", ".", ":", ":", "+", "+", "#", "#"};

}  // namespace

std::vector<std::int64_t> SampleMaxima(const std::vector<std::int64_t>& values, std::size_t count) {
  if (values.size() <= count) return values;
  std::vector<std::int64_t> samples(count);
  for (std::size_t s = 0; s < count; ++s) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(s * values.size() / count);
    const auto end = values.begin() + static_cast<std::ptrdiff_t>((s + 1) * values.size() / count);
    samples[s] = *std::max_element(begin, end);
  }
  return samples;
}

std::vector<std::int64_t> Stretch(const std::vector<std::int64_t>& samples, std::size_t width) {
  if (samples.empty() || samples.size() >= width) return samples;
  std::vector<std::int64_t> out(width);
  for (std::size_t i = 0; i < width; ++i) out[i] = samples[i * samples.size() / width];
  return out;
}

std::vector<std::string> Plot(const std::vector<std::int64_t>& samples, int height, const Terminal& terminal,
                              std::int64_t top) {
  const auto& ramp = terminal.unicode ? kBlocks : kAscii;
  const std::int64_t largest = top > 0 || samples.empty() ? top : *std::max_element(samples.begin(), samples.end());
  std::vector<std::string> lines(static_cast<std::size_t>(height));
  for (const std::int64_t sample : samples) {
    int eighths = 0;
    if (largest > 0 && sample > 0) {
      const double share = static_cast<double>(sample) / static_cast<double>(largest);
      eighths = std::clamp(static_cast<int>(share * height * 8 + 0.5), 1, height * 8);
    }
    for (int row = 0; row < height; ++row) {
      const int below = (height - 1 - row) * 8;
      lines[static_cast<std::size_t>(row)] += ramp[static_cast<std::size_t>(std::clamp(eighths - below, 0, 8))];
    }
  }
  return lines;
}

}  // namespace ebbtide::report
