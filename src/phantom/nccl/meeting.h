// Where the ranks of one communicator meet: memory that their processes share, with what each rank has called and small
// contents. A rank that ends leaves the meeting, however it ends: a record lock of its process says that it is there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "phantom/nccl/call.h"

namespace ebbtide::phantom {

class Meeting {
 public:
  static constexpr Bytes kLargestPayload = 64 * 1024;
  static constexpr std::uint64_t kRing = 64;    // collectives of a rank that the others may still have to look at
  static constexpr std::uint64_t kSends = 128;  // the same for sends

  struct Post;

  // Takes the place of `rank` in the meeting `name`, and waits for nobody. A process may hold several places. An error
  // text where the number of ranks differs from what another rank said, or the place is taken.
  static std::string Join(const std::string& name, int ranks, int rank, std::shared_ptr<Meeting>& out);
  ~Meeting();

  // Leaves; what was posted stays.
  void Leave(int rank);

  int ranks() const { return ranks_; }
  bool IsHere(int rank) const;  // has come, and may have gone since
  bool IsGone(int rank) const;  // has come, and is there no more
  pid_t PidOf(int rank) const;
  std::string NameOfRank(int rank) const;  // "rank 3"

  // The next collective of `rank`; its number, from 1. `payload` has call.payload bytes.
  std::uint64_t Collective(int rank, const Call& call, const std::byte* payload);
  // What a rank called as its `number`-th collective; null: it has not come to it yet.
  const Post* PostOf(int rank, std::uint64_t number) const;
  // The last collective of a rank; null where it made none.
  const Post* LastOf(int rank) const;
  // This rank has looked at all collectives up to `number`.
  void Done(int rank, std::uint64_t number);
  bool MayPost(int rank) const;  // false: the others have still to look at what would be overwritten

  // A send; numbers count for each receiver from 0. False: the ring is full of sends that nobody took.
  bool Send(int rank, const Call& call, const std::byte* payload);
  const Post* SentBy(int from, int to, std::uint64_t index) const;
  void Take(const Post* post);

  static const Call& CallOf(const Post* post);
  static const std::byte* PayloadOf(const Post* post);

  // Sleeps until something may have changed, a tenth of a second at most.
  void Sleep(std::uint32_t version) const;
  std::uint32_t version() const;

  // The first fault counts, and every rank learns of it.
  void Fault(const std::string& text);
  std::string fault() const;

 private:
  struct Shared;
  struct Place;

  Meeting() = default;
  Place& PlaceOf(int rank) const;
  void Wake() const;

  int ranks_ = 0;
  int fd_ = -1;
  std::string name_;
  Shared* shared_ = nullptr;
  std::size_t bytes_ = 0;
};

// Waits until `missing` names no rank. Ends the process with one line where a rank that is missing has ended, where
// processes wait for each other, or where one that is missing does nothing for long.
void WaitInMeeting(Meeting& meeting, int rank, const std::string& what,
                   const std::function<std::vector<int>()>& missing);

// Says what is wrong, if nobody of the run has yet, and ends the process: its record is written before.
[[noreturn]] void EndWithFault(const std::string& text);
// Says it in the same way, and returns.
void SayFault(const std::string& text);

}  // namespace ebbtide::phantom
