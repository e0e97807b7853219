// Vector clocks of streams and host, and what an access means for the history of its bytes.
#include "phantom/core/race.h"

#include <algorithm>
#include <utility>

namespace ebbtide::phantom {

// A slot is used again only when the host has seen the end of all that was in it: nothing can race with that any more.
int RaceChecker::StreamCreated() {
  std::lock_guard lock(mutex_);
  for (int& slot : unused_) {
    Stream& stream = streams_[slot];
    std::uint64_t last = stream.clock[slot];
    if (last > 0 && (static_cast<std::size_t>(slot) >= host_.size() || host_[slot] < last)) continue;
    int found = std::exchange(slot, unused_.back());
    unused_.pop_back();
    stream.number = next_number_++;
    stream.clock.assign(stream.clock.size(), 0);
    stream.clock[found] = last;
    stream.host_version = 0;
    return found;
  }
  int slot = static_cast<int>(streams_.size());
  streams_.push_back({Clock(streams_.size() + 1), 0, next_number_++});
  return slot;
}

void RaceChecker::StreamDestroyed(int stream) {
  std::lock_guard lock(mutex_);
  unused_.push_back(stream);
}

void RaceChecker::Join(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

void RaceChecker::HostKnows(const Clock& clock) {
  Join(host_, clock);
  Join(seen_, clock);
  ++host_version_;
}

void RaceChecker::BeginsAfterHost(Stream& stream) {
  if (stream.host_version == host_version_) return;
  Join(stream.clock, host_);
  stream.host_version = host_version_;
}

RaceChecker::Clock RaceChecker::Recorded(int stream) {
  std::lock_guard lock(mutex_);
  BeginsAfterHost(streams_[stream]);
  return streams_[stream].clock;
}

void RaceChecker::StreamWaits(int stream, const Clock& clock) {
  std::lock_guard lock(mutex_);
  Join(streams_[stream].clock, clock);
}

void RaceChecker::HostWaits(const Clock& clock) {
  std::lock_guard lock(mutex_);
  HostKnows(clock);
}

void RaceChecker::HostSynchronized(int stream) {
  std::lock_guard lock(mutex_);
  HostKnows(streams_[stream].clock);
}

void RaceChecker::DeviceSynchronized() {
  std::lock_guard lock(mutex_);
  for (const Stream& stream : streams_) HostKnows(stream.clock);
}

void RaceChecker::HostSaw(const Clock& clock) {
  std::lock_guard lock(mutex_);
  Join(seen_, clock);
}

void RaceChecker::HostSawStream(int stream) {
  std::lock_guard lock(mutex_);
  Join(seen_, streams_[stream].clock);
}

bool RaceChecker::Covers(const Clock& clock, const Entry& entry) {
  if (entry.stream < 0) return true;
  auto stream = static_cast<std::size_t>(entry.stream);
  return stream < clock.size() && clock[stream] >= entry.operation;
}

std::uint32_t RaceChecker::SiteOf(std::string_view name, std::string_view frame) {
  key_.assign(name).append(1, '\n').append(frame);
  auto [found, is_new] = site_ids_.try_emplace(key_, static_cast<std::uint32_t>(sites_.size()));
  if (is_new) sites_.push_back({std::string(name), std::string(frame)});
  return found->second;
}

void RaceChecker::Operation(int stream, std::string_view name, std::string_view frame,
                            std::span<const Access> accesses) {
  std::lock_guard lock(mutex_);
  Stream& own = streams_[stream];
  BeginsAfterHost(own);
  std::uint64_t operation = ++own.clock[stream];
  if (accesses.empty()) return;
  Entry now{operation, stream, SiteOf(name, frame), AccessKind::kRead};
  if (!told_.empty()) told_.clear();
  for (const Access& access : accesses) {
    if (access.bytes <= 0) continue;
    now.kind = access.kind;
    Touch(access, now, own.clock);
  }
  SweepIfLarge();
}

void RaceChecker::Freed(std::uint64_t begin, Bytes bytes, std::string_view name, std::string_view frame) {
  if (bytes <= 0) return;
  std::lock_guard lock(mutex_);
  told_.clear();
  Touch({begin, bytes, AccessKind::kFree}, {0, -1, SiteOf(name, frame), AccessKind::kFree}, host_);
  SweepIfLarge();
}

void RaceChecker::Touch(const Access& access, const Entry& now, const Clock& clock) {
  ++access_count_;
  auto ordered = [&](const Entry& earlier) {
    return Covers(clock, earlier) || (access.on_host && Covers(seen_, earlier));
  };
  auto is_same = [&](const Entry& earlier) {
    return now.stream >= 0 && earlier.stream == now.stream && earlier.operation == now.operation;
  };
  bool reads = now.kind == AccessKind::kRead;
  bool uses = reads || now.kind == AccessKind::kWrite;
  shadow_.ForEach(access.begin, access.bytes, true, [&](RaceShadow::History& history, auto begin, auto end) {
    for (const Entry& earlier : history) {
      if (is_same(earlier)) continue;
      bool is_gone = uses && earlier.kind == AccessKind::kFree;
      bool conflict = !reads || earlier.kind != AccessKind::kRead;
      if (is_gone || (conflict && !ordered(earlier))) Report(earlier, now, begin, end);
    }
    // What it is ordered after and at least as strong as, it stands for from now on. Memory that is gone stays gone.
    std::erase_if(history, [&](const Entry& earlier) {
      if (uses && earlier.kind == AccessKind::kFree) return false;
      return (!reads || earlier.kind == AccessKind::kRead) && ordered(earlier);
    });
    bool known = reads && std::any_of(history.begin(), history.end(), is_same);
    if (!known) history.push_back(now);
  });
}

void RaceChecker::Allocated(std::uint64_t begin, Bytes bytes) {
  std::lock_guard lock(mutex_);
  shadow_.ForEach(begin, bytes, false, [](RaceShadow::History& history, auto, auto) { history.clear(); });
}

void RaceChecker::Released(std::uint64_t begin, Bytes bytes) {
  std::lock_guard lock(mutex_);
  shadow_.ForEach(begin, bytes, false, [&](RaceShadow::History& history, auto, auto) {
    std::erase_if(history, [&](const Entry& entry) { return entry.kind != AccessKind::kFree && Covers(seen_, entry); });
  });
}

// What the host knows to be over is before everything that is still to come.
void RaceChecker::SweepIfLarge() {
  sweep_at_ = std::min(sweep_at_, std::max<std::size_t>(4096, 2 * shadow_.cell_count()));
  if (shadow_.cell_count() < sweep_at_) return;
  shadow_.Sweep([&](const Entry& entry) { return entry.kind != AccessKind::kFree && Covers(host_, entry); });
  sweep_at_ = std::max<std::size_t>(4096, 2 * shadow_.cell_count());
}

void RaceChecker::Report(const Entry& earlier, const Entry& later, std::uint64_t begin, std::uint64_t end) {
  if (!told_.emplace(earlier.stream, earlier.stream < 0 ? earlier.site : earlier.operation).second) return;
  ++race_count_;
  auto [known, is_new] = known_.try_emplace({earlier.site, earlier.kind, later.site, later.kind}, races_.size());
  if (!is_new) {
    ++races_[known->second].count;
  } else if (races_.size() < kKept) {
    races_.push_back({Describe(earlier), Describe(later), begin, static_cast<Bytes>(end - begin)});
  } else {
    known_.erase(known);
  }
}

RaceChecker::Site RaceChecker::Describe(const Entry& entry) const {
  const Names& names = sites_[entry.site];
  int stream = entry.stream < 0 ? -1 : streams_[entry.stream].number;
  return {stream, entry.operation, entry.kind, names.name, names.frame};
}

std::vector<RaceChecker::Race> RaceChecker::races() const {
  std::lock_guard lock(mutex_);
  return races_;
}

std::int64_t RaceChecker::race_count() const {
  std::lock_guard lock(mutex_);
  return race_count_;
}

std::int64_t RaceChecker::access_count() const {
  std::lock_guard lock(mutex_);
  return access_count_;
}

std::size_t RaceChecker::cell_count() const {
  std::lock_guard lock(mutex_);
  return shadow_.cell_count();
}

}  // namespace ebbtide::phantom
