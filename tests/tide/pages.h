// A device for tests of the tide allocator: knows which pages have memory, refuses when told to, and has streams whose
// progress other threads may move along.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <set>
#include <vector>

#include "tide/tide.h"

namespace ebbtide::tide {

class PagesDevice final : public TideDevice {
 public:
  static constexpr Bytes kPage = DeviceMemory::kGranule;
  static constexpr std::size_t kStreams = 16;

  explicit PagesDevice(Bytes capacity) : capacity_(capacity) {}

  Bytes total() const override { return capacity_; }
  std::optional<Address> Reserve(Bytes bytes) override {
    if (Refuses()) return std::nullopt;
    const Address begin = next_;
    next_ += static_cast<Address>(bytes) + kPage;
    return begin;
  }
  bool Map(Address begin, Bytes bytes) override {
    EXPECT_TRUE(begin % kPage == 0 && bytes % kPage == 0 && bytes > 0);
    if (Refuses() || used() + bytes > capacity_) return false;
    for (Bytes at = 0; at < bytes; at += kPage) {
      EXPECT_TRUE(pages_.insert(begin + static_cast<Address>(at)).second) << "mapped twice";
    }
    return true;
  }
  void Unmap(Address begin, Bytes bytes) override {
    for (Bytes at = 0; at < bytes; at += kPage) {
      EXPECT_EQ(pages_.erase(begin + static_cast<Address>(at)), 1u) << "unmapped without memory";
    }
  }
  Event Record(StreamId stream) override { return {stream, streams_[stream.index()].submitted.load()}; }
  std::int64_t Finished(StreamId stream) override { return streams_[stream.index()].finished.load(); }
  void StreamWaits(StreamId stream, const Event& event) override { waits.push_back({stream, event}); }
  void HostWaits(const Event& event) override {
    ++host_waits;
    streams_[event.stream.index()].finished = event.position;
  }

  void Submit(StreamId stream) { ++streams_[stream.index()].submitted; }
  void Finish(StreamId stream) { streams_[stream.index()].finished = streams_[stream.index()].submitted.load(); }

  Bytes used() const { return static_cast<Bytes>(pages_.size()) * kPage; }
  const std::set<Address>& pages() const { return pages_; }
  // Of the calls from now on that take memory, the one of this number is refused, from 0; and those after it.
  void RefuseFrom(int call) { refuse_from_ = call; }
  void RefuseOnly(int call) { refuse_only_ = call; }

  struct Wait {
    StreamId stream;
    Event event;
  };
  std::vector<Wait> waits;
  std::int64_t host_waits = 0;

 private:
  struct Stream {
    std::atomic<std::int64_t> submitted = 0, finished = 0;
  };
  bool Refuses() {
    const bool refused = refuse_from_ == 0 || refuse_only_ == 0;
    if (refuse_from_ > 0) --refuse_from_;
    if (refuse_only_ >= 0) --refuse_only_;
    return refused;
  }

  const Bytes capacity_;
  Address next_ = Address{1} << 40;
  std::set<Address> pages_;
  std::array<Stream, kStreams> streams_;
  int refuse_from_ = -1, refuse_only_ = -1;
};

}  // namespace ebbtide::tide
