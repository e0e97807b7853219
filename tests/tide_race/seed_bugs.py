"""The tide allocator's own sources with bugs seeded into them, each of which `tide_bug` switches on at run time.

    seed_bugs.py SOURCES OUTPUT     copies the allocator of src/tide to OUTPUT/tide and writes OUTPUT/bugs.inc, the list of names

A bug is a place in a file, which must be there exactly once, and what stands there instead; BUG is true where it is on.
"""

import pathlib
import sys

BUGS = [
    # ---- Waits
    ("a wait is left out", "tide.cc", "    device_->StreamWaits(request.stream, last);\n", "    if (!BUG) device_->StreamWaits(request.stream, last);\n"),
    ("a wait is for all that was submitted", "tide.cc", "device_->StreamWaits(request.stream, last);",
     "device_->StreamWaits(request.stream, BUG ? device_->Record(last.stream) : last);"),
    ("a wait is for the point before", "tide.cc", "device_->Record(last.stream) : last);",
     "device_->Record(last.stream) : BUG && last.position > 1 ? Event{last.stream, last.position - 1} : last);"),
    ("only the first stream is waited for", "tide.cc", "    ++waits;\n", "    if (BUG && waits > 0) continue;\n    ++waits;\n"),
    ("the earliest use is waited for", "tide.cc",
     "    needed = std::max(needed, use.position);\n    any = true;", "    needed = BUG && needed > 0 ? std::min(needed, use.position) : std::max(needed, use.position);\n    any = true;"),
    ("uses of the own stream are waited for, those of others are not", "tide.cc",
     "    if (use.stream == request.stream || IsOver(use)) return true;", "    if ((use.stream == request.stream) != BUG || IsOver(use)) return true;"),
    ("only the first use of a chunk is waited for", "tide.cc", "    any = true;\n    return true;", "    any = true;\n    return !BUG;"),
    ("waits for the first half of the bytes", "tide.cc", "  bool any = false;\n  chunks_.ForUses(index, request.size,",
     "  bool any = false;\n  chunks_.ForUses(index, BUG ? request.size / 2 : request.size,"),
    ("what was needed before is needed again", "tide.cc", "std::exchange(streams_[other].needed, 0)};",
     "BUG ? streams_[other].needed : std::exchange(streams_[other].needed, 0)};"),
    # ---- Clocks
    ("a wait is taken to reach further", "tide.cc", "std::max(known[event.stream.index()], event.position);",
     "std::max(known[event.stream.index()], event.position + (BUG ? 1 : 0));"),
    ("what one stream has waited for, the other knows", "tide.cc", "    Know(request.stream, last);",
     "    BUG ? Know(last.stream, {request.stream, last.position}) : Know(request.stream, last);"),
    ("who waits knows of all streams", "tide.cc", "Know(request.stream, last);\n  }",
     "Know(request.stream, last);\n    for (std::size_t i = 0; BUG && i < streams_.size(); ++i) Know(request.stream, {StreamId(i), last.position});\n  }"),
    ("ordered is judged by any use", "tide.cc", "    return ordered;\n  });", "    return ordered && !BUG;\n  });"),
    ("ordered is judged by half of the bytes", "tide.cc", "  int looks = kMostUses;\n  chunks_.ForUses(index, request.size,",
     "  int looks = kMostUses;\n  chunks_.ForUses(index, BUG ? request.size / 2 : request.size,"),
    ("ordered is one point too much, and then not waited for", "tide.cc", "known[other] >= last.position)) continue;",
     "known[other] >= last.position - (BUG ? 1 : 0))) continue;"),
    ("known of another stream", "tide.cc", "    if (last.position == 0 || (other < known.size() && known[other] >=",
     "    if (last.position == 0 || (other < known.size() && known[BUG && other > 0 ? other - 1 : other] >="),
    # ---- Completion
    ("completed is judged one point too early", "tide.h", "streams_[use.stream.index()].finished >= use.position;",
     "streams_[use.stream.index()].finished + (BUG ? 1 : 0) >= use.position;"),
    ("completed is judged by another stream", "tide.h", "return streams_[use.stream.index()].finished",
     "return streams_[BUG && use.stream.index() > 0 ? use.stream.index() - 1 : use.stream.index()].finished"),
    ("a chunk of many parts is finished with its first", "free.cc", "    if (streams_[stream].finished < chunk.until) return;",
     "    if (!BUG && streams_[stream].finished < chunk.until) return;"),
    ("a chunk is finished when it is looked at", "free.cc", "  if (!only.valid()) chunks_.DropParts(index);",
     "  if (BUG && several) only = StreamId();\n  if (!only.valid()) chunks_.DropParts(index);"),
    ("a use of a mixed chunk counts for its stream alone", "free.cc", "    several |= only.valid() && use.stream != only;",
     "    several |= !BUG && only.valid() && use.stream != only;\n    if (BUG && only.valid()) use.stream = StreamId();\n    if (BUG && only.valid()) return true;"),
    ("the device is believed to be further", "free.cc", "device_->Finished(StreamId(i)));", "device_->Finished(StreamId(i)) + (BUG ? 2 : 0));"),
    ("until is that of the first chunk", "chunks.cc", "  chunk.until = std::max(chunk.until, gone.until);", "  if (!BUG) chunk.until = std::max(chunk.until, gone.until);"),
    # ---- Frees
    ("a free has no use", "free.cc", "  chunks_.SetUse(index, last);", "  chunks_.SetUse(index, BUG ? Event{last.stream, 0} : last);"),
    ("a free is recorded on another stream", "free.cc", "  const Event last = device_->Record(chunk.stream);",
     "  const Event last = device_->Record(BUG && streams_.size() > 1 ? StreamId((chunk.stream.index() + 1) % streams_.size()) : chunk.stream);"),
    ("streams that were recorded are forgotten", "free.cc", "for (const StreamId stream : others->second) chunks_.AddUse",
     "for (const StreamId stream : others->second) if (!BUG) chunks_.AddUse"),
    ("only one more stream is remembered", "free.cc", "others.end()) others.push_back(stream);", "others.end() && !(BUG && !others.empty())) others.push_back(stream);"),
    ("of several other streams the first is forgotten", "free.cc", "  chunk.has_others = true;\n",
     "  chunk.has_others = true;\n  if (BUG && others.size() > 1) others.erase(others.begin());\n"),
    ("a block with other users is of its own stream", "free.cc", "    chunk.set = kMixed;\n", "    if (!BUG) chunk.set = kMixed;\n    if (BUG) { chunks_.SetUse(index, last); }\n"),
    # ---- Parts
    ("the rest of a split part has no uses", "chunks.cc", "NewPart(At(last).bytes - left, At(last).use);", "NewPart(At(last).bytes - left, BUG ? Event{} : At(last).use);"),
    ("the rest of a split part has its first use alone", "chunks.cc", "for (Index use = At(last).more, end = cut; use != kNone;", "for (Index use = BUG ? kNone : At(last).more, end = cut; use != kNone;"),
    ("a split is one step off", "chunks.cc", "  Bytes left = chunk.size;\n", "  Bytes left = chunk.size - (BUG && chunk.size > 512 ? 512 : 0);\n"),
    ("a split forgets the parts behind", "chunks.cc", "  rest.first_part = At(last).next;\n", "  rest.first_part = BUG ? kNone : At(last).next;\n"),
    ("a join forgets the uses of the second", "chunks.cc", "    last.next = gone.first_part;\n    chunk.last_part = gone.last_part;",
     "    if (BUG) last.bytes += gone.size;\n    if (!BUG) last.next = gone.first_part;\n    if (!BUG) chunk.last_part = gone.last_part;"),
    ("a join is by stream, not by point", "chunks.cc", "last.use.position == first.use.position);", "(BUG || last.use.position == first.use.position));"),
    ("a join takes parts with several uses for alike", "chunks.cc", "const bool alike = last.more == kNone && first.more == kNone &&", "const bool alike = (BUG || (last.more == kNone && first.more == kNone)) &&"),
    ("chunks of different streams are joined", "free.cc", "  if (a != b && a != kClean && b != kClean) return false;", "  if (!BUG && a != b && a != kClean && b != kClean) return false;"),
    # ---- Chunks and sets
    ("a chunk behind is joined though it is in use", "free.cc", "  if (!chunks_.Is(other, state)) return false;",
     "  if (other == kNone || (BUG ? chunks_[other].state == State::kUnmapped : !chunks_.Is(other, state))) return false;"),
    ("a chunk that changed is looked at as if it had not", "free.cc", "      if (chunk.number != first.number || chunk.state != State::kFree) continue;",
     "      if (!BUG && (chunk.number != first.number || chunk.state != State::kFree)) continue;"),
    ("the last bin is not emptied", "bins.cc", "  bits_[bin / kWord] &= ~(std::uint64_t{1} << bin % kWord);", "  if (!BUG) bits_[bin / kWord] &= ~(std::uint64_t{1} << bin % kWord);"),
    ("a bin holds what is a step smaller", "bins.cc", "  const std::size_t bin = static_cast<std::size_t>((size + kStep - 1) / kStep);", "  const std::size_t bin = static_cast<std::size_t>((size + kStep - 1) / kStep) - (BUG && size > kStep ? 1 : 0);"),
    ("a span keeps what was taken of it", "spans.cc", "  keep({chunk.end(), span.end, chunk.next}, chunk.next);", "  keep({BUG ? chunk.address : chunk.end(), span.end, BUG ? index : chunk.next}, chunk.next);"),
    # ---- Pages
    ("a refusal leaves what was mapped", "grow.cc", "for (const auto& [address, bytes] : mapped) device_->Unmap(address, bytes);", "for (const auto& [address, bytes] : mapped) if (!BUG) device_->Unmap(address, bytes);"),
    ("a refusal counts what was not mapped", "grow.cc", "        return false;\n      }\n      mapped.emplace_back", "        if (BUG) usage_.Take(part);\n        return false;\n      }\n      mapped.emplace_back"),
    ("a refusal is taken for memory", "grow.cc", "if (!device_->Map(chunk.address, part)) {", "if (!device_->Map(chunk.address, part) && !BUG) {"),
    ("pages are given back one too many", "grow.cc", "last = At(index).end() / kPage * kPage;", "last = BUG ? static_cast<Address>(RoundUp(static_cast<Bytes>(At(index).end()), kPage)) : At(index).end() / kPage * kPage;"),
    ("the host does not wait before pages are given back", "grow.cc", "    device_->HostWaits({StreamId(i), last});", "    if (BUG) streams_[i].finished = last;\n    if (!BUG) device_->HostWaits({StreamId(i), last});"),
    # ---- Quotas
    ("a guarantee is exceeded by a page", "quotas.cc", "others + account.claim() <= capacity_;", "others + account.claim() <= capacity_ + (BUG ? kPage : 0);"),
    ("the last page of a block is not charged", "quotas.cc", "  if (pages.last != pages.first) edge(pages.last);", "  if (pages.last != pages.first && !BUG) edge(pages.last);"),
    ("a limit is not looked at", "quotas.cc", "  return account.charged <= account.quota.limit &&", "  return (BUG || account.charged <= account.quota.limit) &&"),
]


def main(sources, output):
    folder = output / "tide"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {path.name: path.read_text() for path in sorted(sources.glob("*.[ch]*"))}
    numbers = {name: number for number, (name, *_) in enumerate(BUGS, 1)}
    assert len(numbers) == len(BUGS), "two bugs have one name"
    for number, (name, file, place, instead) in enumerate(BUGS, 1):
        if texts[file].count(place) != 1:
            sys.exit(f"seed_bugs: {name}: expected once in {file}: {place.strip()}")
        texts[file] = texts[file].replace(place, instead.replace("BUG", f"(tide_bug == {number})"))
    declared = "#pragma once\n\nnamespace ebbtide::tide {\nextern int tide_bug;  // 0: none\n}\n"
    for name, text in texts.items():
        (folder / name).write_text(text.replace("#pragma once\n", declared, 1))
    (output / "bugs.inc").write_text("".join(f'"{name}",\n' for name, *_ in BUGS))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
