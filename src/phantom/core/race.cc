// Shadows of the address space: the last write and the reads since, for every range that has been accessed alike.
#include "phantom/core/race.h"

#include <algorithm>

namespace ebbtide::phantom {

int RaceChecker::StreamCreated() {
  std::lock_guard lock(mutex_);
  streams_.emplace_back();
  int stream = static_cast<int>(streams_.size()) - 1;
  streams_.back().resize(streams_.size());
  return stream;
}

// Its operations go on to their end and its number is not used again, so there is nothing to forget.
void RaceChecker::StreamDestroyed(int) {}

void RaceChecker::Join(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

RaceChecker::Clock RaceChecker::Recorded(int stream) {
  std::lock_guard lock(mutex_);
  Join(streams_[stream], host_);
  return streams_[stream];
}

void RaceChecker::StreamWaits(int stream, const Clock& clock) {
  std::lock_guard lock(mutex_);
  Join(streams_[stream], clock);
}

void RaceChecker::HostWaits(const Clock& clock) {
  std::lock_guard lock(mutex_);
  Join(host_, clock);
}

void RaceChecker::HostSynchronized(int stream) {
  std::lock_guard lock(mutex_);
  Join(host_, streams_[stream]);
}

void RaceChecker::DeviceSynchronized() {
  std::lock_guard lock(mutex_);
  for (const Clock& clock : streams_) Join(host_, clock);
}

void RaceChecker::NextOperation(int stream) {
  std::lock_guard lock(mutex_);
  Join(streams_[stream], host_);
  ++streams_[stream][stream];
}

bool RaceChecker::Ordered(const Site& earlier, const Clock& clock) const {
  std::size_t stream = static_cast<std::size_t>(earlier.stream);
  return stream < clock.size() && clock[stream] >= earlier.operation;
}

void RaceChecker::Report(int earlier, int later, std::uint64_t begin, std::uint64_t end) {
  if (std::find(reported_.begin(), reported_.end(), std::pair(earlier, later)) != reported_.end()) return;
  if (!reported_.empty() && reported_.back().second != later) reported_.clear();
  reported_.emplace_back(earlier, later);
  ++race_count_;
  if (races_.size() < kKept)
    races_.push_back({sites_[earlier], sites_[later], begin, static_cast<Bytes>(end - begin)});
}

std::map<std::uint64_t, RaceChecker::Shadow>::iterator RaceChecker::SplitAt(std::uint64_t address) {
  auto next = shadows_.lower_bound(address);
  if (next == shadows_.begin()) return next;
  auto before = std::prev(next);
  if (before->second.end <= address) return next;
  Shadow tail = before->second;
  before->second.end = address;
  return shadows_.emplace_hint(next, address, std::move(tail));
}

void RaceChecker::Access(int stream, std::uint64_t begin, Bytes bytes, bool is_write, std::string_view name,
                         std::string_view frame) {
  if (bytes <= 0) return;
  std::lock_guard lock(mutex_);
  ++access_count_;
  const Clock& clock = streams_[stream];
  int site = static_cast<int>(sites_.size());
  sites_.push_back({stream, clock[stream], is_write, std::string(name), std::string(frame)});
  std::uint64_t end = begin + static_cast<std::uint64_t>(bytes);
  auto shadow = SplitAt(begin);
  SplitAt(end);
  std::uint64_t at = begin;
  while (at < end) {
    if (shadow == shadows_.end() || shadow->first > at) {  // never accessed before
      std::uint64_t gap_end = shadow == shadows_.end() ? end : std::min(end, shadow->first);
      shadow = shadows_.emplace_hint(shadow, at, Shadow{gap_end, -1, {}});
    }
    Shadow& known = shadow->second;
    if (known.last_write >= 0 && !Ordered(sites_[known.last_write], clock))
      Report(known.last_write, site, at, known.end);
    if (is_write) {
      for (int read : known.reads)
        if (!Ordered(sites_[read], clock)) Report(read, site, at, known.end);
      known.last_write = site;
      known.reads.clear();
    } else {
      std::erase_if(known.reads, [&](int read) { return sites_[read].stream == stream; });
      known.reads.push_back(site);
    }
    at = known.end;
    ++shadow;
  }
}

void RaceChecker::Freed(std::uint64_t begin, Bytes bytes, std::string_view name, std::string_view frame) {
  std::lock_guard lock(mutex_);
  int site = static_cast<int>(sites_.size());
  sites_.push_back({-1, 0, true, std::string(name), std::string(frame)});
  std::uint64_t end = begin + static_cast<std::uint64_t>(bytes);
  auto shadow = SplitAt(begin);
  SplitAt(end);
  while (shadow != shadows_.end() && shadow->first < end) {
    const Shadow& known = shadow->second;
    if (known.last_write >= 0 && !Ordered(sites_[known.last_write], host_))
      Report(known.last_write, site, shadow->first, known.end);
    for (int read : known.reads)
      if (!Ordered(sites_[read], host_)) Report(read, site, shadow->first, known.end);
    shadow = shadows_.erase(shadow);
  }
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

}  // namespace ebbtide::phantom
