// Draws the line of progress.
#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "cli/interrupt.h"
#include "report/text/text.h"

namespace ebbtide::cli {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr int kBar = 24;

void Write(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

std::string Bar(double share, bool unicode) {
  const int full = std::clamp(static_cast<int>(share * kBar), 0, kBar);
  std::string out;
  for (int i = 0; i < kBar; ++i) out += i < full ? (unicode ? "━" : "#") : (unicode ? "╌" : "-");
  return out;
}

}  // namespace

ProgressLine::ProgressLine(const OutputFlags& flags)
    : terminal_(report::DescribeTerminal(STDERR_FILENO)), visible_(terminal_.interactive && !flags.quiet) {}

ProgressLine::~ProgressLine() { Erase(); }

void ProgressLine::Show(const jobs::Progress& moment) {
  const std::lock_guard lock(mutex_);
  if (moment.phase != what_ || moment.parts != shares_.size()) Start(moment.phase, moment.parts);
  Advance(moment.share, moment.note, moment.part);
}

void ProgressLine::Begin(std::string what, std::size_t parts) {
  const std::lock_guard lock(mutex_);
  Start(what, parts);
}

void ProgressLine::Show(double share, const std::string& note, std::size_t part) {
  const std::lock_guard lock(mutex_);
  Advance(share, note, part);
}

void ProgressLine::Start(const std::string& what, std::size_t parts) {
  if (!what_.empty()) before_ += (1 - before_) / 2;
  what_ = what;
  shares_.assign(parts, 0.0);
  if (visible_) Draw(Overall(), "");
}

double ProgressLine::Overall() const {
  const double phase = std::accumulate(shares_.begin(), shares_.end(), 0.0) / static_cast<double>(shares_.size());
  return before_ + phase * (1 - before_) / 2;
}

void ProgressLine::Advance(double share, const std::string& note, std::size_t part) {
  if (part < shares_.size()) shares_[part] = std::max(shares_[part], share);
  if (visible_ && Clock::now() - drawn_ >= kInterval) Draw(Overall(), note);
}

void ProgressLine::Erase() {
  const std::lock_guard lock(mutex_);
  if (columns_ > 0) {
    if (!Interrupted()) Draw(1, "");
    Write("\r" + std::string(static_cast<std::size_t>(columns_), ' ') + "\r");
  }
  columns_ = 0;
}

void ProgressLine::Draw(double share, const std::string& note) {
  drawn_ = Clock::now();
  std::string line = fmt::format("{} {} {:3.0f} %", what_, Bar(share, terminal_.unicode), 100 * share);
  if (!note.empty()) line += "  " + note;
  line = report::Shorten(report::Printable(line), terminal_.width - 1, terminal_.unicode);
  const int columns = report::Columns(line);
  Write("\r" + report::PadRight(line, columns_));
  columns_ = columns;
}

}  // namespace ebbtide::cli
