// Waiting for other ranks, with an end in every case: they come, they have ended, all wait for each other, or one that
// is missing does nothing at all.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "phantom/core/program.h"
#include "phantom/nccl/board.h"
#include "phantom/nccl/busy.h"
#include "phantom/nccl/meeting.h"

namespace ebbtide::phantom {
namespace {

using Clock = std::chrono::steady_clock;
// How long processes stand still before they are taken to stand still for good: in a circle of waits while no thread of
// theirs computes, wants to, or waits for a disk; outside of all collectives without using a processor, nor does a
// process that it has started. Threads that compute beside a circle might come to its rescue: what they do without end
// is no training, so that after kForever it is told, with that.
constexpr std::chrono::seconds kCircle{5}, kIdle{60}, kForever{1800};
// What a process uses of the processor in kCircle with nothing but watching: 0.1 s.
constexpr std::int64_t kTicksOfWatching = 10;

// Whether something is as it was for so long.
template <class State>
class Unchanged {
 public:
  bool For(const State& state, std::chrono::seconds patience) {
    if (!begun_ || state != state_) {
      state_ = state;
      since_ = Clock::now();
      begun_ = true;
    }
    return Clock::now() - since_ >= patience;
  }

 private:
  State state_{};
  Clock::time_point since_{};
  bool begun_ = false;
};

// Whether processes that wait in a circle will do so for ever.
class Standstill {
 public:
  bool Of(const Board::Circle& circle) {
    const bool is_new = circle.waits.empty() || !begun_ || circle.seen != seen_;
    const Clock::time_point now = Clock::now();
    if (is_new) since_ = now;
    const bool computes = busy_.Look(circle.pids) || Computes(circle);
    if (is_new || computes) {
      quiet_since_ = now;
      for (const pid_t pid : circle.pids) ticks_[pid] = TicksOfProcess(pid);
    }
    begun_ = !circle.waits.empty();
    seen_ = circle.seen;
    return begun_ && (now - quiet_since_ >= kCircle || now - since_ >= kForever);
  }

 private:
  bool Computes(const Board::Circle& circle) {
    return std::ranges::any_of(circle.pids,
                               [&](pid_t pid) { return TicksOfProcess(pid) - ticks_[pid] > kTicksOfWatching; });
  }

  BusyThreads busy_;
  std::map<pid_t, std::int64_t> ticks_;  // when it was quiet last
  std::uint64_t seen_ = 0;
  Clock::time_point since_{}, quiet_since_{};
  bool begun_ = false;
};

std::string LastCall(const Meeting& meeting, int rank) {
  const Meeting::Post* last = meeting.LastOf(rank);
  return last ? "its last collective of this group: " + Describe(Meeting::CallOf(last))
              : "it has made no collective of this group";
}

std::vector<pid_t> PidsOf(const Meeting& meeting, const std::vector<int>& missing, const Board& board) {
  std::vector<pid_t> pids;
  bool unknown = false;
  for (int rank : missing) {
    if (meeting.IsHere(rank))
      pids.push_back(meeting.PidOf(rank));
    else
      unknown = true;
  }
  if (!unknown) return pids;
  // Those that have not come to the meeting are among the processes of the run that are not in it.
  for (pid_t pid : board.Others()) {
    bool inside = false;
    for (int rank = 0; rank < meeting.ranks(); ++rank) inside = inside || meeting.PidOf(rank) == pid;
    if (!inside) pids.push_back(pid);
  }
  return pids;
}

// What each of them has used of the processor, and what compilers and the like that it has started have; those that
// wait in a collective count as standing still.
std::map<pid_t, std::int64_t> TicksOf(const std::vector<pid_t>& pids, const Board& board) {
  std::map<pid_t, std::int64_t> ticks;
  for (pid_t pid : pids) {
    ticks[pid] = board.IsWaiting(pid) ? 0 : TicksOfMainThread(pid);
    if (board.IsWaiting(pid)) continue;
    for (const pid_t child : ChildrenOf(pid)) ticks[child] = TicksOfProcess(child);
  }
  return ticks;
}

}  // namespace

void SayFault(const std::string& text) {
  if (Board::OfThisRun().FirstFault()) std::fprintf(stderr, "phantom: %s\n", text.c_str());
  std::fflush(stderr);
}

void EndWithFault(const std::string& text) {
  SayFault(text);
  EndProgram(1);
}

void WaitInMeeting(Meeting& meeting, int rank, const std::string& what,
                   const std::function<std::vector<int>()>& missing) {
  if (missing().empty()) return;
  Board& board = Board::OfThisRun();
  const std::string who = meeting.NameOfRank(rank) + " waits in " + what;
  Standstill standstill;
  Unchanged<std::map<pid_t, std::int64_t>> idle;
  Clock::time_point next_look = Clock::now() + std::chrono::milliseconds(500);
  for (;;) {
    const std::uint32_t version = meeting.version();
    std::vector<int> absent = missing();
    if (absent.empty()) break;
    if (std::string fault = meeting.fault(); !fault.empty()) EndWithFault(fault);
    for (int other : absent) {
      if (!meeting.IsGone(other) || (absent = missing()).empty()) continue;  // it may have come before it went
      std::string text = meeting.NameOfRank(other) + " (process " + std::to_string(meeting.PidOf(other)) +
                         ") has ended, and " + who + " for it; " + LastCall(meeting, other);
      meeting.Fault(text);
      EndWithFault(text);
    }
    if (absent.empty()) break;
    const std::vector<pid_t> pids = PidsOf(meeting, absent, board);
    board.Waits(pids, who);
    if (Clock::now() >= next_look) {
      next_look = Clock::now() + std::chrono::milliseconds(500);
      const Board::Circle circle = board.WaitingInCircle();
      if (standstill.Of(circle)) {
        std::string text = "ranks wait for each other, and none can go on: ";
        for (std::size_t i = 0; i < circle.waits.size(); ++i) text += (i > 0 ? "; " : "") + circle.waits[i];
        meeting.Fault(text);
        EndWithFault(text);
      }
      if (!pids.empty() && idle.For(TicksOf(pids, board), kIdle)) {
        std::string text = who + ", and " + meeting.NameOfRank(absent[0]) +
                           " does not come: it stands still outside of it; " + LastCall(meeting, absent[0]);
        meeting.Fault(text);
        EndWithFault(text);
      }
    }
    LetSignalsIn();
    meeting.Sleep(version);
  }
  board.WaitsNoMore();
}

}  // namespace ebbtide::phantom
