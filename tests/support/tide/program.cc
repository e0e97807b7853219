// Runs random programs on the tide allocator and keeps a plain account of what it must answer.
#include "tests/support/tide/program.h"

#include <algorithm>
#include <map>

#include "tests/support/tide/checked_device.h"

namespace ebbtide::tide {
namespace {

constexpr Bytes kPage = CheckedDevice::kPage;

// The last uses of free memory, byte by byte, kept without the allocator.
class LastUses {
 public:
  using Uses = std::map<std::size_t, std::int64_t>;

  void Set(Address begin, Address end, const Uses& uses) {
    Cut(begin);
    Cut(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
    if (!uses.empty()) pieces_[begin] = {end, uses};
  }
  // Of each stream the last one.
  Uses Of(Address begin, Address end) {
    Cut(begin);
    Cut(end);
    Uses out;
    for (auto one = pieces_.lower_bound(begin); one != pieces_.end() && one->first < end; ++one) {
      for (const auto& [stream, position] : one->second.uses) out[stream] = std::max(out[stream], position);
    }
    return out;
  }

 private:
  struct Piece {
    Address end = 0;
    Uses uses;
  };
  void Cut(Address at) {
    auto one = pieces_.lower_bound(at);
    if (one == pieces_.begin()) return;
    --one;
    if (one->second.end <= at) return;
    const Piece rest = one->second;
    one->second.end = at;
    pieces_[at] = rest;
  }
  std::map<Address, Piece> pieces_;
};

class Program {
 public:
  Program(const TideProgramOptions& options, TideProgramCounts& counts)
      : options_(options), counts_(counts), random_(options.seed), device_(options, findings_), tide_(device_) {
    if (!options.quotas) return;
    for (std::size_t job = 0; job < 3; ++job) {
      guaranteed_[job] = options.capacity / kPage / 5 * kPage;
      limits_[job] = job == 0 ? options.capacity / kPage / 3 * kPage : kTooLarge;
      if (!tide_.SetQuota(JobId(job), {.guaranteed = guaranteed_[job], .limit = limits_[job]})) {
        findings_.Add("a quota is refused");
      }
    }
    if (tide_.SetQuota(JobId(3), {.guaranteed = options.capacity})) findings_.Add("more is promised than there is");
  }

  std::vector<std::string> Run() {
    for (std::int64_t i = 0; i < options_.operations && !findings_.any(); ++i) {
      Step();
      if (i % options_.check_every == 0) Check();
    }
    End();
    const TideAllocator::Statistics counted = tide_.statistics();
    counts_.met = counted.met;
    counts_.waits = counted.waits;
    counts_.host_waits = counted.host_waits;
    counts_.out_of_memory = counted.out_of_memory;
    counts_.accesses = device_.checker.access_count();
    return findings_.lines_;
  }

 private:
  struct Held {
    Block block;
    StreamId stream;
    std::size_t job;
    StreamId writer;              // the last
    std::vector<StreamId> users;  // beside its own
  };

  std::size_t Below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  StreamId AnyStream() { return StreamId(Below(options_.streams)); }
  static Address End(const Block& block) { return block.address + static_cast<Address>(block.bytes); }

  void Step() {
    const std::size_t what = Below(1000);
    const bool full = held_.size() > options_.live || in_use_ > options_.capacity * 9 / 10;
    if ((what < 450 && !full) || held_.empty()) {
      Allocate();
    } else if (what < 880) {
      Free(Below(held_.size()));
    } else if (what < 940) {
      Use(held_[Below(held_.size())], AnyStream());
    } else if (what < 940 + options_.progress) {
      device_.Finish(AnyStream());
    } else if (what < 995) {
      const StreamId waiter = AnyStream(), other = AnyStream();
      if (waiter == other) return;
      const Event event = device_.Record(other);
      device_.Wait(waiter, event);
      tide_.Ordered(waiter, event);
    } else if (what < 999) {
      Burst();
    } else {
      tide_.EmptyCache();
      Forget();
    }
  }

  // Many small blocks of one stream, freed again at as many points.
  void Burst() {
    const std::size_t before = held_.size();
    const StreamId stream = AnyStream();
    for (int i = 0; i < 150; ++i) Allocate(16 * kKiB, stream);
    while (held_.size() > before) Free(before + Below(held_.size() - before));
  }

  void Allocate() {
    const std::size_t kind = Below(20);
    Allocate(kind < 14 ? 16 * kKiB : kind < 18 ? 3 * kMiB : 24 * kMiB, AnyStream());
  }

  void Allocate(Bytes most, StreamId stream) {
    const std::size_t job = Below(4);
    const Bytes bytes = 1 + static_cast<Bytes>(random_() % static_cast<std::uint64_t>(most));
    const Bytes after = options_.quotas ? Charged(job) + RoundUp(bytes, kPage) : 0;
    device_.waits.clear();
    const TideAllocator::Statistics before = tide_.statistics();
    const auto got = tide_.Allocate(bytes, stream, options_.quotas ? JobId(job) : JobId());
    Forget();
    if (!got) {
      if (options_.quotas && after <= guaranteed_[job] && options_.refusals == 0) {
        findings_.Add("a request within the guarantee is refused");
      }
      return;
    }
    ++counts_.allocations;
    if (got->bytes < bytes || got->bytes >= bytes + 512 || got->address % 512 != 0) findings_.Add("a wrong size");
    const TideAllocator::Statistics now = tide_.statistics();
    if (now.waits - before.waits != static_cast<std::int64_t>(device_.waits.size())) {
      findings_.Add("waits are counted wrongly");
    }
    for (const int without : {TideAllocator::kSameStream, TideAllocator::kOrdered, TideAllocator::kCompleted}) {
      if (now.met[without] > before.met[without] && !device_.waits.empty())
        findings_.Add("a class without waits waits");
    }
    CheckPlace(*got);
    CheckWaits(*got, stream);
    last_.Set(got->address, End(*got), {});
    places_.emplace(got->address, got->bytes);
    in_use_ += got->bytes;
    device_.Work(stream, *got, AccessKind::kWrite);
    held_.push_back({*got, stream, job, stream, {}});
    ChargeEdges(held_.back(), 1);
    if (options_.quotas) CheckQuotas(job);
  }

  void CheckPlace(const Block& block) {
    const auto behind = places_.lower_bound(block.address);
    const bool overlaps = (behind != places_.end() && behind->first < End(block)) ||
                          (behind != places_.begin() &&
                           std::prev(behind)->first + static_cast<Address>(std::prev(behind)->second) > block.address);
    if (overlaps) findings_.Add("two blocks overlap");
    for (Address page = block.address / kPage * kPage; page < End(block); page += kPage) {
      if (!device_.pages.contains(page)) return findings_.Add("a block without memory");
    }
  }

  // For exactly the last use of each other stream, and not for newer work.
  void CheckWaits(const Block& block, StreamId stream) {
    const LastUses::Uses uses = last_.Of(block.address, End(block));
    for (const CheckedDevice::Asked& wait : device_.waits) {
      const auto use = uses.find(wait.event.stream.index());
      if (wait.stream != stream) findings_.Add("another stream waits");
      if (use == uses.end() || use->second != wait.event.position)
        findings_.Add("a wait for another point than the last use");
    }
  }

  // The program's own duty: reads come after the last write, writes after all.
  void Use(Held& held, StreamId stream) {
    const bool writes = Below(4) == 0;
    std::vector<StreamId> earlier = {held.writer};
    if (writes) {
      earlier = held.users;
      earlier.push_back(held.stream);
      held.writer = stream;
    }
    for (const StreamId other : earlier) {
      if (other != stream) device_.Wait(stream, device_.Record(other));
    }
    device_.Work(stream, held.block, writes ? AccessKind::kWrite : AccessKind::kRead);
    tide_.RecordStream(held.block.id, stream);
    if (stream != held.stream && std::ranges::find(held.users, stream) == held.users.end())
      held.users.push_back(stream);
  }

  void Free(std::size_t which) {
    Held& held = held_[which];
    if (Below(2) && held.users.empty()) device_.Work(held.stream, held.block, AccessKind::kWrite);
    LastUses::Uses uses{{held.stream.index(), device_.Record(held.stream).position}};
    for (const StreamId user : held.users) uses[user.index()] = device_.Record(user).position;
    last_.Set(held.block.address, End(held.block), uses);
    places_.erase(held.block.address);
    in_use_ -= held.block.bytes;
    ChargeEdges(held, -1);
    tide_.Free(held.block.id);
    ++counts_.frees;
    held = held_.back();
    held_.pop_back();
  }

  // What was given back holds nothing any more, and nobody's block lay there.
  void Forget() {
    for (const auto& [begin, bytes] : device_.unmapped) {
      const Address end = begin + static_cast<Address>(bytes);
      last_.Set(begin, end, {});
      const auto behind = places_.lower_bound(begin);
      if (behind != places_.end() && behind->first < end && !device_.pages.contains(behind->first / kPage * kPage)) {
        findings_.Add("memory of a block is given back");
      }
    }
    device_.unmapped.clear();
  }

  // ---- Quotas, counted anew: pages by job
  void ChargeEdges(const Held& held, int change) {
    if (!options_.quotas) return;
    for (Address page = held.block.address / kPage; page * kPage < End(held.block); ++page) {
      std::int32_t& blocks = pages_of_[held.job][page];
      blocks += change;
      if (blocks == 0) pages_of_[held.job].erase(page);
    }
  }
  Bytes Charged(std::size_t job) const { return static_cast<Bytes>(pages_of_[job].size()) * kPage; }
  void CheckQuotas(std::size_t job) {
    Bytes claimed = 0;
    for (std::size_t j = 0; j < 4; ++j) claimed += std::max(Charged(j), guaranteed_[j]);
    if (claimed > options_.capacity) findings_.Add("more is claimed than there is");
    if (Charged(job) > limits_[job]) findings_.Add("a job is beyond its limit");
  }

  void Check() {
    const TideAllocator::Statistics counted = tide_.statistics();
    if (device_.checker.race_count() > 0) {
      const RaceChecker::Race race = device_.checker.races().front();
      findings_.Add("race: {} on stream {} and {} on stream {}", race.first.name, race.first.stream, race.second.name,
                    race.second.stream);
    }
    if (counted.reserved != device_.used()) findings_.Add("reserved bytes are not those of the pages");
    if (counted.allocated != in_use_) findings_.Add("allocated bytes are not those of the blocks");
    if (!tide_.IsValid()) findings_.Add("the structures do not agree");
    Bytes of_jobs = 0;
    for (const auto& [id, job] : counted.jobs) {
      of_jobs += job.allocated;
      if (job.charged != Charged(id.index())) findings_.Add("a job is charged wrongly");
    }
    if (options_.quotas && of_jobs != in_use_) findings_.Add("the jobs' bytes are not those of their blocks");
  }

  void End() {
    if (!findings_.any()) Check();
    while (!held_.empty() && !findings_.any()) Free(held_.size() - 1);
    for (std::size_t i = 0; i < options_.streams; ++i) device_.Finish(StreamId(i));
    tide_.EmptyCache();
    Forget();
    if (!findings_.any()) Check();
    if (!findings_.any() && device_.used() != 0)
      findings_.Add("{} bytes are not given back at the end", device_.used());
  }

  const TideProgramOptions options_;
  TideProgramCounts& counts_;
  Findings findings_;
  std::mt19937_64 random_;
  CheckedDevice device_;
  TideAllocator tide_;
  std::vector<Held> held_;
  std::map<Address, Bytes> places_;
  LastUses last_;
  Bytes in_use_ = 0;
  std::array<Bytes, 4> guaranteed_{}, limits_{kTooLarge, kTooLarge, kTooLarge, kTooLarge};
  std::array<std::map<Address, std::int32_t>, 4> pages_of_;
};

}  // namespace

std::vector<std::string> RunTideProgram(const TideProgramOptions& options, TideProgramCounts& counts) {
  return Program(options, counts).Run();
}

std::vector<std::string> RunTideProgram(const TideProgramOptions& options) {
  TideProgramCounts counts;
  return RunTideProgram(options, counts);
}

}  // namespace ebbtide::tide
