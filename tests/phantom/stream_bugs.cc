// The programs. Where `run.Bug(...)` is true the program is wrong in the way that the name says; else it is correct.
#include "tests/phantom/stream_bugs.h"

#include <array>

namespace ebbtide::phantom {
namespace {

void* Pinned(std::size_t bytes) {
  void* host = nullptr;
  EXPECT_EQ(cuMemAllocHost(&host, bytes), CUDA_SUCCESS);
  return host;
}

void ToDevice(const Part& to, const void* from, CUstream stream) {
  EXPECT_EQ(cuMemcpyHtoDAsync(to.begin, from, to.bytes, stream), CUDA_SUCCESS);
}

void ToHost(void* to, const Part& from, CUstream stream) {
  EXPECT_EQ(cuMemcpyDtoHAsync(to, from.begin, from.bytes, stream), CUDA_SUCCESS);
}

void ProducerAndConsumer(BugRun& run) {
  CUstream a = NewStream(), b = NewStream(), c = NewStream();
  CUevent written = NewEvent();
  Part x = NewPart();
  if (run.Bug("the event is recorded before the write")) Record(written, a);
  Kernel(a, "produce", {}, {x});
  if (!run.Bug("the event is recorded before the write"))
    Record(written, run.Bug("the event is recorded in another stream") ? c : a);
  bool late = run.Bug("the wait comes behind the read");
  if (!late && !run.Bug("no wait")) Wait(run.Bug("another stream waits") ? c : b, written);
  Kernel(b, "consume", {x}, {});
  if (late) Wait(b, written);
}

void DoubleBuffering(BugRun& run) {
  CUstream copy = NewStream(), compute = NewStream();
  std::array<CUevent, 2> copied{NewEvent(), NewEvent()}, used{NewEvent(), NewEvent()};
  std::array<Part, 2> buffer{NewPart(), NewPart()};
  void* host = Pinned(buffer[0].bytes);
  for (int i = 0; i < 5; ++i) {
    int slot = i % 2;
    if (!run.Bug("the copy does not wait for the last use")) Wait(copy, used[slot]);
    ToDevice(buffer[run.Bug("all copies go to the first buffer") ? 0 : slot], host, copy);
    Record(copied[slot], copy);
    if (!run.Bug("compute does not wait for the copy"))
      Wait(compute, copied[run.Bug("compute waits for the copy of the other buffer") ? 1 - slot : slot]);
    if (run.Bug("the use is marked before it is submitted")) Record(used[slot], compute);
    Kernel(compute, "forward", {buffer[slot]}, {});
    if (!run.Bug("the use is marked before it is submitted")) Record(used[slot], compute);
  }
}

void SwapOutAndIn(BugRun& run) {
  CUstream compute = NewStream(), out = NewStream(), in = NewStream();
  CUevent produced = NewEvent(), gone = NewEvent(), free_again = NewEvent(), back = NewEvent();
  Part x = NewPart(), z = NewPart();
  void* host = Pinned(x.bytes);
  Kernel(compute, "forward", {}, {x});
  Record(produced, compute);
  if (!run.Bug("the swap out does not wait for its tensor")) Wait(out, produced);
  ToHost(host, x, run.Bug("the swap out is in the stream of the swap in") ? in : out);
  Record(gone, out);
  if (!run.Bug("memory is used again before it was swapped out")) Wait(compute, gone);
  Kernel(compute, "next layer", {}, {x});
  Kernel(compute, "user of z", {z}, {z});
  if (!run.Bug("the swap in does not wait for memory in use")) {
    Record(free_again, compute);
    Wait(in, free_again);
  } else {
    Wait(in, gone);
  }
  ToDevice(z, host, in);
  if (run.Bug("the swapped in tensor is marked too early"))
    Record(back, out);
  else
    Record(back, in);
  if (!run.Bug("backward does not wait for the swap in")) Wait(compute, back);
  Kernel(compute, "backward", {z}, {});
}

// The copy back reads pinned memory that the copy out writes; nothing on the device is shared.
void RoundTripThroughTheHost(BugRun& run) {
  CUstream out = NewStream(), in = NewStream();
  CUevent gone = NewEvent();
  Part x = NewPart(), y = NewPart();
  void* host = Pinned(x.bytes);
  ToHost(host, x, out);
  Record(gone, out);
  if (!run.Bug("the copy back does not wait for the copy out")) Wait(in, gone);
  ToDevice(y, host, in);
  CUevent arrived = NewEvent();
  Record(arrived, in);
  if (!run.Bug("the next copy out overwrites what is still read")) Wait(out, arrived);
  ToHost(host, y, out);
}

void PrefetchOfWeights(BugRun& run) {
  constexpr int kLayers = 6;
  CUstream load = NewStream(), compute = NewStream();
  std::array<Part, 3> slot{NewPart(), NewPart(), NewPart()};
  std::vector<CUevent> loaded, done;
  void* host = Pinned(slot[0].bytes);
  for (int i = 0; i < kLayers; ++i) loaded.push_back(NewEvent()), done.push_back(NewEvent());
  auto fetch = [&](int layer) {
    int last = layer - 3;  // in the same slot
    if (run.Bug("a slot waits for the layer before its own")) --last;
    if (last >= 0 && !run.Bug("a slot is loaded while its last layer runs")) Wait(load, done[last]);
    ToDevice(slot[layer % 3], host, load);
    Record(loaded[layer], load);
  };
  fetch(0);
  fetch(1);
  for (int layer = 0; layer < kLayers; ++layer) {
    bool behind = run.Bug("the layer waits for the weights of the one before");
    if (!run.Bug("a layer does not wait for its weights"))
      Wait(compute, loaded[behind && layer > 0 ? layer - 1 : layer]);
    Kernel(compute, "layer", {slot[layer % 3]}, {});
    if (!run.Bug("the end of a layer is never recorded")) Record(done[layer], compute);
    if (layer + 2 < kLayers) fetch(layer + 2);
  }
}

void EventRecordedAgain(BugRun& run) {
  CUstream a = NewStream(), b = NewStream(), c = NewStream();
  CUevent event = NewEvent();
  Part x = NewPart(), y = NewPart();
  bool too_early = run.Bug("the wait comes before the record");
  if (too_early) Wait(c, event);
  Kernel(a, "write x", {}, {x});
  Record(event, a);
  bool too_late = run.Bug("the event is recorded again before the first wait");
  if (!too_late && !too_early) Wait(c, event);
  Kernel(b, "write y", {}, {y});
  if (!run.Bug("the second record is left out")) Record(event, b);
  if (!run.Bug("the second wait is left out")) Wait(c, event);
  Kernel(c, "read both", {x, y}, {});
}

void CachingAllocator(BugRun& run) {
  CUstream main = NewStream(), side = NewStream();
  CUevent ready = NewEvent(), done = NewEvent();
  Part block = NewPart();
  Kernel(main, "fill", {}, {block});
  Record(ready, main);
  Wait(side, ready);
  Kernel(side, "use", {block}, {});
  Record(done, side);
  if (run.Bug("a use behind the event")) Kernel(side, "use again", {block}, {});
  if (!run.Bug("the block is reused without a wait")) {
    if (run.Bug("the allocator waits for the owner's stream only"))
      Synchronize(main);
    else
      EXPECT_EQ(cuEventSynchronize(run.Bug("the allocator waits for the wrong event") ? ready : done), CUDA_SUCCESS);
  }
  ebbtide_phantom_reused(main, reinterpret_cast<void*>(block.begin), block.bytes, "reuse");
  Kernel(main, "new owner", {}, {block});
  if (run.Bug("the old owner still reads")) Kernel(side, "stale use", {block}, {});
}

void StreamOrderedPool(BugRun& run) {
  CUstream a = NewStream(), b = NewStream();
  CUevent ready = NewEvent(), done = NewEvent();
  Part x{0, 8192};
  EXPECT_EQ(cuMemAllocAsync(&x.begin, x.bytes, a), CUDA_SUCCESS);
  if (!run.Bug("the other stream does not wait for the allocation")) {
    Record(ready, a);
    Wait(b, ready);
  }
  Kernel(b, "use", {}, {x});
  Record(done, b);
  if (!run.Bug("freed while the other stream uses it")) Wait(a, done);
  bool wrong = run.Bug("freed in a stream that does not know of the last use");
  Kernel(a, "last use", {x}, {});
  EXPECT_EQ(cuMemFreeAsync(x.begin, wrong ? b : a), CUDA_SUCCESS);
  if (run.Bug("used behind the free")) Kernel(a, "late use", {x}, {});
}

void BlockingFree(BugRun& run) {
  CUstream a = NewStream();
  Part x = NewPart(), y = NewPart();
  Kernel(a, "write", {}, {x, y});
  bool early = run.Bug("freed before the last kernel is submitted");
  if (!early) Kernel(a, "read", {x}, {});
  EXPECT_EQ(cuMemFree(x.begin), CUDA_SUCCESS);
  if (early) Kernel(a, "read", {x}, {});
  EXPECT_EQ(y.begin, x.begin + x.bytes);
  bool too_far = run.Bug("the neighbour's kernel begins a row too early");
  Kernel(a, "go on", {too_far ? Part{y.begin - Part::kRow, y.bytes} : y}, {});
}

void Unmapping(BugRun& run) {
  constexpr std::size_t kPage = 2 << 20;
  CUstream a = NewStream(), b = NewStream();
  CUevent early = NewEvent();
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr begin = 0;
  EXPECT_EQ(cuMemCreate(&handle, kPage, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressReserve(&begin, kPage, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(begin, kPage, 0, handle, 0), CUDA_SUCCESS);
  Part x{begin, 4096};
  Record(early, a);
  Kernel(a, "use", {}, {x});
  if (run.Bug("the host waits for an event before the use"))
    EXPECT_EQ(cuEventSynchronize(early), CUDA_SUCCESS);
  else if (!run.Bug("unmapped without a wait"))
    Synchronize(run.Bug("the host waits for another stream") ? b : a);
  if (run.Bug("one more kernel behind the wait")) Kernel(a, "use again", {x}, {});
  EXPECT_EQ(cuMemUnmap(begin, kPage), CUDA_SUCCESS);
  if (run.Bug("used after it was unmapped")) Kernel(a, "late use", {x}, {});
}

void Reduction(BugRun& run) {
  constexpr int kParts = 4;
  CUstream main = NewStream();
  std::vector<CUstream> workers;
  std::vector<CUevent> ready;
  CUevent summed = NewEvent();
  for (int i = 0; i < kParts; ++i) workers.push_back(NewStream()), ready.push_back(NewEvent());
  Part partial = NewPart(4 * kParts), sum = NewPart(4);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kParts; ++i) {
      if (round > 0 && !run.Bug("the next round does not wait for the sum")) Wait(workers[i], summed);
      std::size_t rows = run.Bug("a worker writes a row of its neighbour") && i == 1 ? 5 : 4;
      Kernel(workers[i], "partial sum", {}, {partial.Rows(4 * static_cast<std::size_t>(i), rows)});
      Record(ready[i], workers[i]);
    }
    for (int i = 0; i < kParts; ++i) {
      if (i == kParts - 1 && run.Bug("the last worker is not waited for")) continue;
      Wait(main, ready[run.Bug("the first worker is waited for four times") ? 0 : i]);
    }
    Kernel(main, "sum", {partial}, {sum});
    Record(summed, main);
  }
}

void GradientBuckets(BugRun& run) {
  constexpr int kBuckets = 3;
  CUstream compute = NewStream(), communicate = NewStream();
  std::vector<Part> bucket;
  std::vector<CUevent> full;
  CUevent reduced = NewEvent();
  Part weights = NewPart();
  for (int i = 0; i < kBuckets; ++i) bucket.push_back(NewPart(8)), full.push_back(NewEvent());
  for (int step = 0; step < 2; ++step) {
    for (int i = 0; i < kBuckets; ++i) {
      bool early = run.Bug("a bucket goes out before its last gradient");
      Kernel(compute, "gradient", {weights}, {bucket[i].Rows(0, 4)});
      if (early) Record(full[i], compute);
      Kernel(compute, "gradient", {weights}, {bucket[i].Rows(4, 4)});
      if (!early) Record(full[i], compute);
      if (!run.Bug("the reduction does not wait for its bucket"))
        Wait(communicate, full[run.Bug("the reduction waits for the first bucket only") ? 0 : i]);
      Kernel(communicate, "all-reduce", {bucket[i]}, {bucket[i]});
      if (i == 0 && run.Bug("the optimizer waits for the first bucket only")) Record(reduced, communicate);
    }
    if (!run.Bug("the optimizer waits for the first bucket only")) Record(reduced, communicate);
    if (!run.Bug("the optimizer does not wait for the reductions")) Wait(compute, reduced);
    Kernel(compute, "optimizer", bucket, {weights});
  }
}

void WaitsOfTheHost(BugRun& run) {
  CUstream a = NewStream(), b = NewStream();
  CUevent before = NewEvent();
  Part x = NewPart();
  Record(before, a);
  if (run.Bug("the host waits before the write")) Synchronize(a);
  Kernel(a, "write", {}, {x});
  if (run.Bug("the host waits for an event before the write"))
    EXPECT_EQ(cuEventSynchronize(before), CUDA_SUCCESS);
  else if (!run.Bug("the host does not wait") && !run.Bug("the host waits before the write"))
    Synchronize(run.Bug("the host waits for the reader's stream") ? b : a);
  Kernel(b, "read", {x}, {});
}

void DefaultStream(BugRun& run) {
  CUstream a = NewStream(CU_STREAM_DEFAULT);
  CUstream b = NewStream(run.Bug("the reader's stream does not block") ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
  CUstream apart = NewStream();
  Part x = NewPart(), y = NewPart();
  Kernel(a, "write", {}, {x});
  if (!run.Bug("nothing in the default stream between the two"))
    Kernel(run.Bug("the kernel between them is in a stream of its own") ? apart : nullptr, "between", {y}, {y});
  Kernel(b, "read", {x}, {});
  if (run.Bug("the default stream's memory is used in a stream that does not block")) Kernel(apart, "read y", {y}, {});
}

// A copy from pageable memory is over when it returns; a copy in a stream and a memset are not.
void CopiesThatBlock(BugRun& run) {
  CUstream b = NewStream();
  Part x = NewPart(), y = NewPart();
  std::vector<char> pageable(x.bytes);
  if (run.Bug("an asynchronous copy instead"))
    ToDevice(x, Pinned(x.bytes), nullptr);
  else if (run.Bug("a memset instead"))
    EXPECT_EQ(cuMemsetD8(x.begin, 0, x.bytes), CUDA_SUCCESS);
  else if (run.Bug("a copy on the device instead"))
    EXPECT_EQ(cuMemcpyDtoD(x.begin, y.begin, x.bytes), CUDA_SUCCESS);
  else
    EXPECT_EQ(cuMemcpyHtoD(x.begin, pageable.data(), x.bytes), CUDA_SUCCESS);
  Kernel(b, "read", {x}, {});
}

void PipelineOfStages(BugRun& run) {
  constexpr int kBatches = 4;
  std::array<CUstream, 3> stage{NewStream(), NewStream(), NewStream()};
  std::array<std::array<CUevent, kBatches>, 3> done;
  for (auto& events : done)
    for (CUevent& event : events) event = NewEvent();
  std::array<Part, 2> between[2] = {{NewPart(), NewPart()}, {NewPart(), NewPart()}};
  for (int batch = 0; batch < kBatches; ++batch) {
    for (int s = 0; s < 3; ++s) {
      bool from_last = run.Bug("a stage takes its input from the batch before");
      if (s > 0 && !run.Bug("a stage does not wait for the one before it"))
        Wait(stage[s], done[s - 1][from_last && batch > 0 ? batch - 1 : batch]);
      int slots = run.Bug("one buffer between stages where two are waited for") ? 1 : 2;
      if (s < 2 && batch >= 2 && !run.Bug("a stage overwrites what the next one reads"))
        Wait(stage[s], done[s + 1][batch - 2]);
      std::vector<Part> reads, writes;
      if (s > 0) reads.push_back(between[s - 1][batch % slots]);
      if (s < 2) writes.push_back(between[s][batch % slots]);
      bool early = run.Bug("a stage says that it is done before it begins");
      if (early) Record(done[s][batch], stage[s]);
      Kernel(stage[s], "stage", reads, writes);
      if (!early) Record(done[s][batch], stage[s]);
    }
  }
}

void HaloExchange(BugRun& run) {
  CUstream left = NewStream(), right = NewStream();
  CUevent left_done = NewEvent(), right_done = NewEvent();
  std::array<Part, 2> grid{NewPart(16), NewPart(16)};
  for (int step = 0; step < 3; ++step) {
    bool one_grid = run.Bug("both steps in one grid");
    const Part& from = grid[one_grid ? 0 : step % 2];
    const Part& to = grid[one_grid ? 0 : 1 - step % 2];
    if (step > 0 && !run.Bug("left does not wait for right")) Wait(left, right_done);
    if (step > 0 && !run.Bug("right does not wait for left")) Wait(right, left_done);
    Kernel(left, "left half", {from.Rows(0, 9)}, {to.Rows(0, run.Bug("left writes into the right half") ? 9 : 8)});
    Kernel(right, "right half", {from.Rows(7, 9)}, {to.Rows(8, 8)});
    Record(left_done, left);
    Record(right_done, right);
  }
}

}  // namespace

const std::vector<BugProgram>& BugPrograms() {
  static const std::vector<BugProgram> programs = {
      {"producer and consumer", &ProducerAndConsumer},
      {"double buffering", &DoubleBuffering},
      {"swap out and in", &SwapOutAndIn},
      {"round trip through the host", &RoundTripThroughTheHost},
      {"prefetch of weights", &PrefetchOfWeights},
      {"event recorded again", &EventRecordedAgain},
      {"caching allocator", &CachingAllocator},
      {"stream-ordered pool", &StreamOrderedPool},
      {"blocking free", &BlockingFree},
      {"unmapping", &Unmapping},
      {"reduction", &Reduction},
      {"gradient buckets", &GradientBuckets},
      {"waits of the host", &WaitsOfTheHost},
      {"default stream", &DefaultStream},
      {"copies that block", &CopiesThatBlock},
      {"pipeline of stages", &PipelineOfStages},
      {"halo exchange", &HaloExchange},
  };
  return programs;
}

}  // namespace ebbtide::phantom
