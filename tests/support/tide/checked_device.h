// A device for random programs on the tide allocator: streams that get on when the program says so, in an order that
// their waits allow, under the phantom's race checker; pages that are counted. What is wrong goes to the findings.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "phantom/core/race.h"
#include "tests/support/tide/program.h"
#include "tide/device.h"

namespace ebbtide::tide {

using phantom::Access;
using phantom::AccessKind;
using phantom::RaceChecker;

class Findings {
 public:
  static constexpr std::size_t kMost = 8;
  template <class... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    if (lines_.size() < kMost) lines_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  bool any() const { return !lines_.empty(); }
  std::vector<std::string> lines_;
};

using Positions = std::vector<std::int64_t>;  // by stream

class CheckedDevice final : public TideDevice {
 public:
  static constexpr Bytes kPage = DeviceMemory::kGranule;
  CheckedDevice(const TideProgramOptions& options, Findings& findings)
      : options_(options), findings_(findings), random_(options.seed + 77), streams_(options.streams) {
    for (Stream& stream : streams_) {
      stream.checked = checker.StreamCreated();
      stream.knows.assign(options.streams, 0);
    }
  }

  Bytes total() const override { return options_.capacity; }
  std::optional<Address> Reserve(Bytes bytes) override {
    const Address begin = next_;
    next_ += static_cast<Address>(bytes) + kPage;
    return begin;
  }
  bool Map(Address begin, Bytes bytes) override {
    if (begin % kPage != 0 || bytes % kPage != 0 || bytes <= 0) findings_.Add("mapped what are not pages");
    if (used() + bytes > options_.capacity) return false;
    if (options_.refusals > 0 && std::uniform_real_distribution(0.0, 1.0)(random_) < options_.refusals) return false;
    for (Bytes at = 0; at < bytes; at += kPage) {
      if (!pages.insert(begin + static_cast<Address>(at)).second) findings_.Add("a page is mapped twice");
    }
    checker.Allocated(begin, bytes);
    return true;
  }
  void Unmap(Address begin, Bytes bytes) override {
    for (Bytes at = 0; at < bytes; at += kPage) {
      if (pages.erase(begin + static_cast<Address>(at)) != 1) findings_.Add("a page without memory is unmapped");
    }
    unmapped.push_back({begin, bytes});
    checker.Released(begin, bytes);
    checker.Freed(begin, bytes, "unmap", "");
  }
  Event Record(StreamId id) override {
    Stream& stream = streams_[id.index()];
    if (stream.marks.empty() || stream.marks.back().position != stream.submitted) {
      stream.marks.push_back({stream.submitted, checker.Recorded(stream.checked), stream.knows});
    }
    return {id, stream.submitted};
  }
  std::int64_t Finished(StreamId id) override {
    Stream& stream = streams_[id.index()];
    while (stream.marks.size() > 1 && stream.marks[1].position <= stream.finished) stream.marks.pop_front();
    if (!stream.marks.empty() && stream.marks.front().position <= stream.finished) {
      checker.HostSaw(stream.marks.front().clock);
      return stream.marks.front().position;
    }
    return 0;
  }
  void StreamWaits(StreamId id, const Event& event) override {
    waits.push_back({id, event});
    Wait(id, event);
  }
  void HostWaits(const Event& event) override {
    const Mark* const mark = MarkFor(event);
    if (!mark) return findings_.Add("the host waits for an event that was not recorded");
    checker.HostWaits(mark->clock);
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      streams_[i].finished = std::max(streams_[i].finished, mark->knows[i]);
    }
  }
  void Handed(Address begin, Bytes bytes, StreamId /*stream*/) override { checker.Released(begin, bytes); }

  // ---- The program's side
  void Wait(StreamId id, const Event& event) {
    const Mark* const mark = MarkFor(event);
    if (!mark) return findings_.Add("a stream waits for an event that was not recorded");
    Stream& stream = streams_[id.index()];
    checker.StreamWaits(stream.checked, mark->clock);
    for (std::size_t i = 0; i < stream.knows.size(); ++i) stream.knows[i] = std::max(stream.knows[i], mark->knows[i]);
    stream.knows[id.index()] = ++stream.submitted;
  }
  void Work(StreamId id, const Block& block, AccessKind kind) {
    Stream& stream = streams_[id.index()];
    const Access access{block.address, block.bytes, kind};
    checker.Operation(stream.checked, kind == AccessKind::kWrite ? "write" : "read", "", {&access, 1});
    stream.knows[id.index()] = ++stream.submitted;
  }
  // All that the stream has been given, and what that waited for.
  void Finish(StreamId id) {
    const Positions& knows = streams_[id.index()].knows;
    for (std::size_t i = 0; i < streams_.size(); ++i) streams_[i].finished = std::max(streams_[i].finished, knows[i]);
  }
  Bytes used() const { return static_cast<Bytes>(pages.size()) * kPage; }

  struct Asked {
    StreamId stream;
    Event event;
  };
  RaceChecker checker;
  std::set<Address> pages;
  std::vector<Asked> waits;                         // since they were last looked at
  std::vector<std::pair<Address, Bytes>> unmapped;  // likewise

 private:
  struct Mark {
    std::int64_t position;
    RaceChecker::Clock clock;
    Positions knows;
  };
  struct Stream {
    int checked = 0;
    std::int64_t submitted = 0, finished = 0;
    Positions knows;
    std::deque<Mark> marks;
  };
  // Of what is finished the last mark is kept; it covers those before it.
  const Mark* MarkFor(const Event& event) const {
    const std::deque<Mark>& marks = streams_[event.stream.index()].marks;
    const auto found = std::ranges::lower_bound(marks, event.position, {}, &Mark::position);
    return found == marks.end() ? nullptr : &*found;
  }

  const TideProgramOptions& options_;
  Findings& findings_;
  std::mt19937_64 random_;
  std::vector<Stream> streams_;
  Address next_ = Address{1} << 40;
};

}  // namespace ebbtide::tide
