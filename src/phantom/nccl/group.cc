// Groups of calls: what is sent is posted first, then every collective, and each stream gets one operation that is over
// when the other ranks have posted theirs. Content is that of the moment of submission.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "phantom/core/copy.h"
#include "phantom/core/device.h"
#include "phantom/core/program.h"
#include "phantom/nccl/board.h"
#include "phantom/nccl/communicator.h"

namespace ebbtide::phantom {
namespace {

// Elements that a rank gives and gets, in parts of `count`.
std::uint64_t Given(const Call& call, int ranks, int rank) {
  switch (call.kind) {
    case CallKind::kBroadcast: return rank == call.root ? call.count : 0;
    case CallKind::kScatter: return rank == call.root ? call.count * static_cast<std::uint64_t>(ranks) : 0;
    case CallKind::kReduceScatter:
    case CallKind::kAlltoAll: return call.count * static_cast<std::uint64_t>(ranks);
    case CallKind::kReceive: return 0;
    default: return call.count;
  }
}

struct Part {
  Transfer transfer;
  std::uint64_t number = 0;  // of the collective; of a receive: how many came from that rank before
  Nanos duration = 0;
  std::vector<std::byte> payload;  // what this rank gives, as far as its call says that it is known
};

std::string What(const Part& part) {
  return Describe(part.transfer.call) + " (group of " + std::to_string(part.transfer.communicator->ranks) + ")";
}

// The ranks that have not come to a part yet.
std::vector<int> Missing(const Part& part) {
  const Communicator& communicator = *part.transfer.communicator;
  std::vector<int> missing;
  if (!communicator.meeting) return missing;
  const Call& call = part.transfer.call;
  if (call.kind == CallKind::kSend) return missing;
  if (call.kind == CallKind::kReceive) {
    if (!communicator.meeting->SentBy(call.root, communicator.rank, part.number)) missing.push_back(call.root);
    return missing;
  }
  for (int rank = 0; rank < communicator.ranks; ++rank)
    if (rank != communicator.rank && !communicator.meeting->PostOf(rank, part.number)) missing.push_back(rank);
  return missing;
}

std::string MismatchText(const Communicator& communicator, const Part& part, int other, const Call& theirs) {
  const bool is_receive = part.transfer.call.kind == CallKind::kReceive;
  return std::string(is_receive ? "a receive that does not match its send" : "a mismatched collective") +
         (is_receive ? "" : ", number " + std::to_string(part.number)) + " of a group of " +
         std::to_string(communicator.ranks) + ": " + communicator.meeting->NameOfRank(communicator.rank) + " calls " +
         Describe(part.transfer.call) + "; " + communicator.meeting->NameOfRank(other) + " calls " + Describe(theirs);
}

// The first rank that called something else in place of this collective; empty where none has yet.
std::string FindMismatch(const Part& part) {
  const Communicator& communicator = *part.transfer.communicator;
  for (int rank = 0; rank < communicator.ranks; ++rank) {
    const Meeting::Post* post = communicator.meeting->PostOf(rank, part.number);
    if (!post || Match(part.transfer.call, Meeting::CallOf(post))) continue;
    return MismatchText(communicator, part, rank, Meeting::CallOf(post));
  }
  return "";
}

// What a rank gave, of which the first bytes are known; -1: none.
struct Gift {
  const std::byte* data = nullptr;
  Bytes known = -1;
};

// By rank.
std::vector<Gift> Gifts(const Part& part, Nanos& ready) {
  const Communicator& communicator = *part.transfer.communicator;
  std::vector<Gift> gifts(static_cast<std::size_t>(communicator.ranks));
  for (int rank = 0; rank < communicator.ranks; ++rank) {
    Gift& gift = gifts[static_cast<std::size_t>(rank)];
    if (!communicator.meeting) {
      gift = {part.payload.data(), part.transfer.call.payload};
      continue;
    }
    const Meeting::Post* post = communicator.meeting->PostOf(rank, part.number);
    ready = std::max(ready, Meeting::CallOf(post).ready);
    gift = {Meeting::PayloadOf(post), Meeting::CallOf(post).payload};
  }
  return gifts;
}

// Writes `bytes` of what a rank gave, from `offset` on; what is not known of it is forgotten.
void Put(std::byte* to, const Gift& gift, Bytes offset, Bytes bytes) {
  const Bytes known = std::clamp<Bytes>(gift.known - offset, 0, bytes);
  if (known < bytes) WriteContent(to + known, bytes - known, nullptr);
  if (known > 0) WriteContent(to, known, gift.data + offset);
}

// Reduces the elements of all ranks from `offset` on. Null: it cannot be known.
std::vector<std::byte> Reduced(const Part& part, const std::vector<Gift>& gifts, Bytes offset) {
  const Call& call = part.transfer.call;
  const Bytes bytes = static_cast<Bytes>(call.count) * SizeOfType(call.type);
  std::vector<std::byte> result;
  for (const Gift& gift : gifts) {
    if (gift.known < offset + bytes) return {};
    if (result.empty()) {
      result.assign(gift.data + offset, gift.data + offset + bytes);
    } else if (!Reduce(result.data(), gift.data + offset, call.count, call.type, call.operation)) {
      return {};
    }
  }
  if (call.operation == ncclAvg && !Divide(result.data(), call.count, call.type, static_cast<int>(gifts.size())))
    return {};
  return result;
}

void PutResult(const Part& part, const std::vector<Gift>& gifts) {
  const Call& call = part.transfer.call;
  const Communicator& communicator = *part.transfer.communicator;
  auto* to = static_cast<std::byte*>(part.transfer.to);
  const Bytes bytes = static_cast<Bytes>(call.count) * SizeOfType(call.type);
  const auto chunk = static_cast<Bytes>(communicator.rank) * bytes;
  const bool is_root = communicator.rank == call.root;
  switch (call.kind) {
    case CallKind::kReduce:
      if (!is_root) return;
      [[fallthrough]];
    case CallKind::kAllReduce:
    case CallKind::kReduceScatter: {
      const auto result = Reduced(part, gifts, call.kind == CallKind::kReduceScatter ? chunk : 0);
      return WriteContent(to, bytes, result.empty() ? nullptr : result.data());
    }
    case CallKind::kGather:
      if (!is_root) return;
      [[fallthrough]];
    case CallKind::kAllGather:
    case CallKind::kAlltoAll: {
      const Bytes offset = call.kind == CallKind::kAlltoAll ? chunk : 0;
      for (std::size_t rank = 0; rank < gifts.size(); ++rank)
        Put(to + static_cast<Bytes>(rank) * bytes, gifts[rank], offset, bytes);
      return;
    }
    case CallKind::kBroadcast:
      if (!communicator.meeting && !is_root) return;  // an absent root has what this rank has
      return Put(to, gifts[static_cast<std::size_t>(call.root)], 0, bytes);
    case CallKind::kScatter: return Put(to, gifts[static_cast<std::size_t>(call.root)], chunk, bytes);
    default: return;
  }
}

// The calls of one group in one stream.
class Collected : public Pending {
 public:
  explicit Collected(Nanos ready) : ready_(ready) {}
  std::vector<Part> parts;

 private:
  bool OthersAreHere() override {
    return std::all_of(parts.begin(), parts.end(), [](const Part& part) { return Missing(part).empty(); });
  }

  void WaitForOthers() override {
    for (const Part& part : parts) {
      const Communicator& communicator = *part.transfer.communicator;
      if (communicator.meeting)
        WaitInMeeting(*communicator.meeting, communicator.rank, What(part),
                      [&] { return are_here_ ? std::vector<int>{} : Missing(part); });
    }
  }

  Nanos Finish() override {
    are_here_ = true;
    TheDevice().known.Arrived(this);
    Nanos end = ready_;
    for (Part& part : parts) end = std::max(end, FinishPart(part));
    return end;
  }

  Nanos FinishPart(Part& part) {
    const Call& call = part.transfer.call;
    if (call.kind == CallKind::kSend) return ready_ + part.duration;
    if (call.kind == CallKind::kReceive) return FinishReceive(part);
    Communicator& communicator = *part.transfer.communicator;
    if (communicator.meeting) {
      if (const std::string text = FindMismatch(part); !text.empty()) {
        communicator.meeting->Fault(text);
        EndWithFault(text);
      }
    }
    Nanos ready = ready_;
    PutResult(part, Gifts(part, ready));
    std::lock_guard lock(communicator.mutex);
    communicator.open.erase(part.number);
    if (communicator.meeting && !communicator.left)
      communicator.meeting->Done(communicator.rank, communicator.open.empty() ? communicator.last_number
                                                                              : communicator.open.begin()->first - 1);
    return ready + part.duration;
  }

  Nanos FinishReceive(const Part& part) {
    Communicator& communicator = *part.transfer.communicator;
    const Call& call = part.transfer.call;
    const Bytes bytes = static_cast<Bytes>(call.count) * SizeOfType(call.type);
    if (!communicator.meeting) {
      std::lock_guard lock(communicator.mutex);
      const auto same = communicator.last_sent.find(bytes);
      WriteContent(part.transfer.to, bytes, same == communicator.last_sent.end() ? nullptr : same->second.data());
      return ready_ + part.duration;
    }
    const Meeting::Post* post = communicator.meeting->SentBy(call.root, communicator.rank, part.number);
    const Call sent = Meeting::CallOf(post);
    if (!Match(call, sent)) {
      const std::string text = MismatchText(communicator, part, call.root, sent);
      communicator.meeting->Fault(text);
      EndWithFault(text);
    }
    Put(static_cast<std::byte*>(part.transfer.to), {Meeting::PayloadOf(post), sent.payload}, 0, bytes);
    communicator.meeting->Take(post);
    return std::max(ready_, sent.ready) + part.duration;
  }

  const Nanos ready_;
  // The others were found here, by any thread: one that still waits for them must not look again, as what they posted
  // may have been taken since.
  std::atomic<bool> are_here_{false};
};

// Reads what a rank gives, as far as it is small and known.
void ReadPayload(Part& part) {
  const Communicator& communicator = *part.transfer.communicator;
  const Call& call = part.transfer.call;
  const Bytes bytes = static_cast<Bytes>(Given(call, communicator.ranks, communicator.rank)) * SizeOfType(call.type);
  if (bytes > Meeting::kLargestPayload) return;
  part.payload.resize(static_cast<std::size_t>(bytes));
  Bytes known = bytes, unknown = bytes + 1;
  if (!ReadContent(part.transfer.from, bytes, part.payload.data())) {
    // Buffers of objects are padded with what nobody wrote: their beginning is known.
    for (known = 0, unknown = bytes; unknown - known > 1;) {
      const Bytes middle = (known + unknown) / 2;
      (ReadContent(part.transfer.from, middle, part.payload.data()) ? known : unknown) = middle;
    }
    if (known == 0) return;
  }
  part.transfer.call.payload = known;
}

void PostSend(Part& part) {
  Communicator& communicator = *part.transfer.communicator;
  Call& call = part.transfer.call;
  {
    std::lock_guard lock(communicator.mutex);
    call.index = communicator.sent[call.root]++;
    if (!communicator.meeting && call.payload == static_cast<Bytes>(part.payload.size()))
      communicator.last_sent[call.payload] = part.payload;
  }
  if (!communicator.meeting) return;
  bool posted = false;
  WaitInMeeting(*communicator.meeting, communicator.rank, What(part), [&] {
    posted = posted || communicator.meeting->Send(communicator.rank, call, part.payload.data());
    return posted ? std::vector<int>{} : std::vector<int>{call.root};
  });
}

// Makes room for one more collective: what is far behind is over for this rank, and the others have looked at it.
void MakeRoom(const Part& part) {
  Communicator& communicator = *part.transfer.communicator;
  for (;;) {
    std::shared_ptr<Pending> oldest;
    {
      std::lock_guard lock(communicator.mutex);
      if (communicator.open.empty() || communicator.open.begin()->first + Meeting::kRing > communicator.last_number + 1)
        break;
      oldest = communicator.open.begin()->second.lock();
      if (!oldest) communicator.open.erase(communicator.open.begin());
    }
    if (oldest) oldest->Wait();
  }
  WaitInMeeting(*communicator.meeting, communicator.rank, What(part), [&] {
    std::vector<int> behind;
    for (int rank = 0; rank < communicator.ranks && !communicator.meeting->MayPost(communicator.rank); ++rank)
      if (rank != communicator.rank) behind.push_back(rank);
    return behind;
  });
}

// An error text where another rank has called something else already.
std::string PostCollective(Part& part, const std::shared_ptr<Pending>& pending) {
  Communicator& communicator = *part.transfer.communicator;
  if (!communicator.meeting) return "";
  MakeRoom(part);
  {
    std::lock_guard lock(communicator.mutex);
    part.number = communicator.meeting->Collective(communicator.rank, part.transfer.call, part.payload.data());
    communicator.last_number = part.number;
    communicator.open[part.number] = pending;
  }
  return FindMismatch(part);
}

ncclResult_t CheckTransfer(const Transfer& transfer) {
  const Bytes size = SizeOfType(transfer.call.type);
  if (size == 0) return Refuse(ncclInvalidArgument, "an unknown data type");
  const auto ranks = static_cast<std::uint64_t>(transfer.communicator->ranks);
  if (transfer.call.count > static_cast<std::uint64_t>(kTooLarge / size) / ranks)
    return Refuse(ncclInvalidArgument, "too many elements");
  if (!IsStream(transfer.stream)) return Refuse(ncclInvalidArgument, "not a stream");
  return ncclSuccess;
}

// Whoever asks for the result from now on waits for the other ranks.
void ExpectResult(const Part& part, const std::shared_ptr<Pending>& pending) {
  const Communicator& communicator = *part.transfer.communicator;
  const Call& call = part.transfer.call;
  const auto all = static_cast<Bytes>(communicator.ranks);
  const bool is_root = communicator.rank == call.root;
  Bytes parts = 1;
  if (call.kind == CallKind::kSend || (call.kind == CallKind::kReduce && !is_root)) parts = 0;
  if (call.kind == CallKind::kAllGather || call.kind == CallKind::kAlltoAll) parts = all;
  if (call.kind == CallKind::kGather) parts = is_root ? all : 0;
  TheDevice().known.Expect(reinterpret_cast<Address>(part.transfer.to),
                           parts * static_cast<Bytes>(call.count) * SizeOfType(call.type), pending);
}

// One stream's share of a group.
struct Share {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Collected> pending;
};

ncclResult_t SubmitAll(std::vector<Transfer> transfers) {
  Device& device = TheDevice();
  std::vector<Share> shares;
  const std::string line = ProgramLine();
  for (Transfer& transfer : transfers) {
    const int peer = transfer.call.kind >= CallKind::kSend ? transfer.call.root : -1;
    WaitForAllRanks(*transfer.communicator);
    if (Code code = TakeBuffers(*transfer.communicator, peer); code != Code::kSuccess) return FromCode(code);
    std::shared_ptr<Stream> stream = device.streams.Find(transfer.stream);
    const Nanos duration = DurationOf(*transfer.communicator, transfer.call);
    if (stream->CapturePlace().first) {  // part of a graph: a kernel, whose ranks are not compared
      stream->Submit({.name = NameOf(transfer.call.kind), .duration = duration});
      continue;
    }
    auto share = std::find_if(shares.begin(), shares.end(), [&](const Share& s) { return s.stream == stream; });
    if (share == shares.end()) {
      shares.push_back({stream, std::make_shared<Collected>(stream->Ready())});
      share = shares.end() - 1;
    }
    Part part{.transfer = std::move(transfer), .duration = duration, .payload = {}};
    part.transfer.call.ready = stream->Ready();
    std::snprintf(part.transfer.call.line, sizeof(part.transfer.call.line), "%s", line.c_str());
    share->pending->parts.push_back(std::move(part));
  }
  Board::OfThisRun().Progress();
  for (const Share& share : shares) {
    for (Part& part : share.pending->parts) {
      ReadPayload(part);
      if (part.transfer.call.kind == CallKind::kSend) PostSend(part);
    }
  }
  std::string mismatch;
  for (const Share& share : shares) {
    for (Part& part : share.pending->parts) {
      Communicator& communicator = *part.transfer.communicator;
      if (part.transfer.call.kind == CallKind::kReceive) {
        std::lock_guard lock(communicator.mutex);
        part.number = communicator.received[part.transfer.call.root]++;
      } else if (part.transfer.call.kind != CallKind::kSend && mismatch.empty()) {
        mismatch = PostCollective(part, share.pending);
        if (!mismatch.empty()) communicator.meeting->Fault(mismatch);
      }
    }
  }
  if (!mismatch.empty()) {
    SayFault(mismatch);
    return Refuse(ncclInvalidUsage, mismatch);
  }
  for (const Share& share : shares) {
    for (const Part& part : share.pending->parts) ExpectResult(part, share.pending);
    share.stream->Submit(share.pending);
  }
  return ncclSuccess;
}

// ---- One rank: what it sends is what it receives, copied where the two buffers differ; a reduction with a factor is a
// kernel.

ncclResult_t CopyOver(const Transfer& transfer) {
  const Bytes bytes = static_cast<Bytes>(transfer.call.count) * SizeOfType(transfer.call.type);
  if (transfer.call.operation < 0) return FromCode(Launch(NameOf(transfer.call.kind), transfer.stream));
  if (bytes == 0 || transfer.from == transfer.to) return ncclSuccess;
  if (!transfer.from || !transfer.to) return Refuse(ncclInvalidArgument, "no buffer");
  Device& device = TheDevice();
  return FromCode(Copy(device, *device.streams.Find(transfer.stream),
                       {.name = NameOf(transfer.call.kind),
                        .to = reinterpret_cast<Address>(transfer.to),
                        .from = reinterpret_cast<Address>(transfer.from),
                        .width = bytes}));
}

// The n-th send to the own rank meets its n-th receive, in each communicator.
ncclResult_t CopyToSelf(std::vector<Transfer>& transfers) {
  const auto is_own = [](const Transfer& t) { return t.communicator->ranks == 1; };
  std::vector<Transfer> sends, receives;
  for (const Transfer& transfer : transfers) {
    if (!is_own(transfer)) continue;
    if (transfer.call.kind == CallKind::kSend)
      sends.push_back(transfer);
    else if (transfer.call.kind == CallKind::kReceive)
      receives.push_back(transfer);
    else if (ncclResult_t result = CopyOver(transfer); result != ncclSuccess)
      return result;
  }
  std::erase_if(transfers, is_own);
  for (const Transfer& send : sends) {
    auto receive = receives.begin();
    while (receive != receives.end() && receive->communicator != send.communicator) ++receive;
    if (receive == receives.end()) return Refuse(ncclInvalidUsage, "a send to the own rank that nothing receives");
    if (!Match(send.call, receive->call)) return Refuse(ncclInvalidUsage, "a send and its receive differ in size");
    Transfer both = send;
    both.to = receive->to;
    if (ncclResult_t result = CopyOver(both); result != ncclSuccess) return result;
    receives.erase(receive);
  }
  return receives.empty() ? ncclSuccess : Refuse(ncclInvalidUsage, "a receive from the own rank that nothing sends");
}

// What this thread has called since it opened a group.
struct Group {
  int depth = 0;
  std::vector<Transfer> transfers;
  std::vector<std::shared_ptr<Communicator>> made;
};
thread_local Group group;

ncclResult_t Submit(std::vector<Transfer> transfers) {
  if (ncclResult_t result = CopyToSelf(transfers); result != ncclSuccess) return result;
  return transfers.empty() ? ncclSuccess : SubmitAll(std::move(transfers));
}

}  // namespace

bool GroupIsOpen() { return group.depth > 0; }

void AtGroupEnd(std::shared_ptr<Communicator> communicator) { group.made.push_back(std::move(communicator)); }

ncclResult_t Enqueue(Transfer transfer) {
  if (ncclResult_t result = CheckTransfer(transfer); result != ncclSuccess) return result;
  if (group.depth > 0) {
    group.transfers.push_back(std::move(transfer));
    return ncclSuccess;
  }
  return Submit({std::move(transfer)});
}

}  // namespace ebbtide::phantom

using namespace ebbtide::phantom;

ncclResult_t ncclGroupStart() {
  EBB_PHANTOM_CALL(FromCode, "ncclGroupStart");
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  EBB_PHANTOM_CALL(FromCode, "ncclGroupEnd");
  if (group.depth == 0) return Refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group.depth > 0) return ncclSuccess;
  std::vector<Transfer> transfers = std::move(group.transfers);
  const auto made = std::move(group.made);
  group.transfers.clear();
  group.made.clear();
  for (const auto& communicator : made) WaitForAllRanks(*communicator);
  return Submit(std::move(transfers));
}
