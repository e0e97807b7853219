// Traces from text: what is read, what is refused and where, and replays with their arithmetic.
#include "trace/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "alloc/make.h"
#include "alloc/tracing.h"
#include "tests/support/folders.h"
#include "trace/replay.h"

namespace ebbtide::trace {
namespace {

using alloc::Block;
using alloc::ChooseAllocator;
using alloc::DeviceMemory;
using alloc::MakeAllocator;
using alloc::Streams;
using alloc::TracingAllocator;
using testing::HasSubstr;
using testing::StartsWith;

std::string OwnError(std::string_view rows) {
  const auto trace = ParseOwnTrace("action,id,bytes,stream\n" + std::string(rows), "t.csv");
  return trace ? "no error" : trace.error().message;
}
std::string TorchError(std::string_view rows, std::string_view initial = "") {
  const auto trace = ParseTorchEvents("action,addr,size,stream\n" + std::string(rows), "t.csv", initial, "i.csv");
  return trace ? "no error" : trace.error().message;
}
Replayed RunTrace(const Trace& trace, std::string_view model, Bytes capacity, bool keep_going = false) {
  DeviceMemory device({.total = capacity});
  Streams streams;
  const auto allocator = MakeAllocator(*ChooseAllocator(std::string(model), ""), device, streams);
  return *Replay(trace, *allocator, device, streams, {.keep_going = keep_going});
}

TEST(OwnTrace, WhatCouldNotHaveHappenedIsRefusedWithItsLine) {
  EXPECT_EQ(OwnError("alloc,a,10,0\nfree,a\n"), "no error");
  EXPECT_EQ(OwnError("# comment\n\nalloc,a,10,0\nfree,a\nfree,a\n"),
            "t.csv: line 6: expected the id of a block that is allocated and not freed, found \"a\"");
  EXPECT_THAT(OwnError("free,b\n"), StartsWith("t.csv: line 2: "));
  EXPECT_THAT(OwnError("alloc,a,-5,0\n"), HasSubstr("line 2: expected a number of bytes from 0 on, found \"-5\""));
  EXPECT_THAT(OwnError("alloc,a,5x,0\n"), HasSubstr("found \"5x\""));
  EXPECT_THAT(OwnError("alloc,a,99999999999999999999,0\n"), HasSubstr("expected a number of bytes"));
  EXPECT_THAT(OwnError("alloc,a,5,0\nalloc,a,5,0\n"), HasSubstr("line 3: id \"a\" is allocated already"));
  EXPECT_THAT(OwnError("grow,a,5,0\n"), HasSubstr("expected alloc, free,"));
  EXPECT_THAT(OwnError("alloc,\"a,5,0\n"), HasSubstr("line 2: expected a quote"));
  EXPECT_THAT(ParseOwnTrace("", "t.csv").error().message, HasSubstr("expected a header"));
}

TEST(TorchEvents, WhatCouldNotHaveHappenedIsRefusedWithItsLine) {
  EXPECT_EQ(TorchError("alloc,1000,512,0\nfree_requested,1000,512,0\nfree_completed,1000,512,0\n"), "no error");
  EXPECT_THAT(TorchError("alloc,1000,512,0\nalloc,1200,512,0\n"),
              HasSubstr("line 3: a block of 512 bytes at address 1200 overlaps"));
  EXPECT_THAT(TorchError("alloc,1200,512,0\nalloc,1000,512,0\n"), HasSubstr("overlaps the one at 1200"));
  EXPECT_THAT(TorchError("free_requested,1000,512,0\n"), HasSubstr("line 2: free_requested of address 1000"));
  EXPECT_THAT(TorchError("alloc,1,5,0\nfree_requested,1,5,0\nfree_requested,1,5,0\n"), HasSubstr("freed twice"));
  EXPECT_THAT(TorchError("alloc,1,-5,0\n"), HasSubstr("expected a size from 0 on, found \"-5\""));
  EXPECT_THAT(TorchError("melt,1,5,0\n"), HasSubstr("expected an action of torch's history"));
  const std::string header = "seg_addr,seg_size,pool,stream,block_addr,block_size,allocated,requested_size\n";
  EXPECT_THAT(TorchError("", header + "0,1024,small,0,512,512,1,500\n"),
              HasSubstr("i.csv: line 2: expected a block that begins at 0"));
  EXPECT_THAT(TorchError("", header + "0,1024,small,0,0,512,1,500\n"),
              HasSubstr("expected blocks that fill the segment"));
}

TEST(Replay, OutOfMemoryEndsItOrNot) {
  const Trace trace = *ParseOwnTrace(
      "action,id,bytes,stream\nalloc,a,31457280,0\nalloc,b,31457280,0\nalloc,c,1000,0\nfree,b\nfree,a\n", "t.csv");
  const Replayed stopped = RunTrace(trace, "pytorch", 50 * kMiB);
  EXPECT_TRUE(stopped.out_of_memory);
  EXPECT_EQ(trace.events[static_cast<std::size_t>(stopped.failed_event)].place, 3);
  EXPECT_EQ(stopped.usage.reserved_peak, 30 * kMiB);
  const Replayed went_on = RunTrace(trace, "pytorch", 50 * kMiB, true);
  EXPECT_EQ(went_on.usage.reserved_peak, 32 * kMiB);
  EXPECT_EQ(went_on.usage.allocated, 1024);
  const Replayed fits = RunTrace(trace, "pytorch", 62 * kMiB);
  EXPECT_FALSE(fits.out_of_memory);
  EXPECT_EQ(fits.segments, (std::vector<Bytes>{30 * kMiB, 30 * kMiB, 2 * kMiB}));
}

TEST(Replay, BeginsWithTheStateBesideTheTrace) {
  // 20 MiB with 8 MiB in use: 10 MiB more fit without a segment, then not.
  const Trace trace = *ParseTorchEvents(
      "action,addr,size,stream\nalloc,108388608,10485760,0\nsegment_alloc,200000000,20971520,0\nalloc,200000000,"
      "5242880,0\n",
      "t.csv",
      "seg_addr,seg_size,pool,stream,block_addr,block_size,allocated,requested_size\n"
      "100000000,20971520,large,0,100000000,8388608,1,8388600\n100000000,20971520,large,0,108388608,12582912,0,\n",
      "i.csv");
  const Replayed result = RunTrace(trace, "pytorch", kTooLarge);
  EXPECT_EQ(result.initial_reserved, 20 * kMiB);
  EXPECT_EQ(result.usage.reserved_peak, 40 * kMiB);
  EXPECT_EQ(result.segments, std::vector<Bytes>{20 * kMiB});
  ASSERT_TRUE(result.recorded);
  EXPECT_TRUE(result.recorded->all_equal());
  EXPECT_EQ(result.recorded->reserved_peak, 40 * kMiB);
  EXPECT_EQ(RunTrace(trace, "no-fragmentation", kTooLarge).usage.reserved_peak, 8 * kMiB + 10 * kMiB + 5 * kMiB);
}

TEST(Replay, SegmentsThatWentBackAreTheProgramsDoingUnlessMemoryWasShort) {
  const Trace trace = *ParseTorchEvents(
      "action,addr,size,stream\nsegment_alloc,100000000,31457280,0\nalloc,100000000,31457280,0\n"
      "free_requested,100000000,31457280,0\nfree_completed,100000000,31457280,0\nsegment_free,100000000,31457280,0\n"
      "segment_alloc,200000000,41943040,0\nalloc,200000000,41943040,0\n",
      "t.csv", "", "");
  EXPECT_EQ(RunTrace(trace, "pytorch", kTooLarge).usage.reserved_peak, 40 * kMiB);
  EXPECT_EQ(RunTrace(trace, "pytorch", 50 * kMiB).usage.reserved_peak, 40 * kMiB);
  EXPECT_FALSE(RunTrace(trace, "pytorch", 50 * kMiB).out_of_memory);
}

TEST(Tracing, WhatWasWrittenDownReplaysAlike) {
  DeviceMemory device;
  Streams streams;
  TracingAllocator traced(MakeAllocator({}, device, streams));
  const Block a = *traced.Allocate(30 * kMiB, StreamId(0));
  traced.RecordStream(a.id, StreamId(1));
  traced.Free(a.id);
  traced.Allocate(5000, StreamId(1));
  traced.EmptyCache();
  traced.Allocate(12 * kMiB, StreamId(0));
  const auto trace = ParseOwnTrace(traced.text(), "traced");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(RunTrace(*trace, "pytorch", kTooLarge).usage.reserved_peak, traced.usage().reserved_peak);
}

// Recordings of real programs: every segment and the peak, from the state they began with.
TEST(Replay, RecordingsAreMetExactly) {
  const std::filesystem::path folder = DataFolder() / "torch-traces";
  if (!std::filesystem::is_directory(folder)) {
    GTEST_SKIP() << folder << " is not there; EBBTIDE_DATA names the folder of the data";
  }
  int traces = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".events.csv.gz")) continue;
    ++traces;
    const auto trace = ReadTrace(path);
    ASSERT_TRUE(trace) << trace.error().message;
    const Replayed result = RunTrace(*trace, "pytorch", kTooLarge);
    EXPECT_EQ(result.segments, result.recorded->segments) << path;
    EXPECT_EQ(result.usage.reserved_peak, result.recorded->reserved_peak) << path;
    EXPECT_LE(RunTrace(*trace, "no-fragmentation", kTooLarge).usage.reserved_peak, result.usage.reserved_peak) << path;
  }
  EXPECT_EQ(traces, 7);
}

}  // namespace
}  // namespace ebbtide::trace
