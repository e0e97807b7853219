// A table in shared memory with an entry for each process. Entries of processes that ended are taken over.
#include "phantom/nccl/board.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "phantom/core/config.h"
#include "phantom/core/mix.h"

namespace ebbtide::phantom {

struct Board::Entry {
  std::atomic<std::int32_t> pid;
  std::atomic<std::int32_t> rank;
  std::atomic<std::uint64_t> progress;
  std::atomic<std::int32_t> waiting;  // how many of `missing` count; 0: it does not wait
  std::int32_t missing[kMissing];
  char what[kText];
};

struct Board::Table {
  std::atomic<std::int32_t> faults;
  Entry entries[kProcesses];
};

std::string Board::Prefix() {
  const std::string& shared = TheConfig().shared;
  return "/ebbtide-phantom-" + (shared.empty() ? "run-" + std::to_string(getsid(0)) : shared) + "-nccl-";
}

Board& Board::OfThisRun() {
  static Board* board = new Board(Prefix() + "board");
  return *board;
}

Board::Board(const std::string& name) {
  const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Table)) != 0) {
    std::fprintf(stderr, "phantom: NCCL: cannot open shared memory %s: %s\n", name.c_str(), std::strerror(errno));
    std::_Exit(2);
  }
  void* at = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) std::_Exit(2);
  table_ = static_cast<Table*>(at);
  Own();
}

Board::Entry* Board::Own() {
  if (own_ && own_->pid == getpid()) return own_;
  for (Entry& entry : table_->entries) {
    std::int32_t pid = entry.pid.load();
    if (pid != 0 && pid != getpid() && IsAlive(pid)) continue;
    if (!entry.pid.compare_exchange_strong(pid, getpid())) continue;
    entry.waiting = 0;
    entry.progress = 0;
    const char* rank = std::getenv("RANK");
    entry.rank = rank ? std::atoi(rank) : -1;
    return own_ = &entry;
  }
  return own_ = &table_->entries[kProcesses - 1];
}

void Board::SetRank(int rank) { Own()->rank = rank; }

void Board::Progress() { Own()->progress.fetch_add(1, std::memory_order_relaxed); }

void Board::Waits(const std::vector<pid_t>& missing, const std::string& what) {
  Entry* own = Own();
  own->waiting = 0;
  const auto count = std::min<std::size_t>(missing.size(), kMissing);
  std::copy_n(missing.begin(), count, own->missing);
  std::snprintf(own->what, kText, "%s", what.c_str());
  own->waiting.store(static_cast<std::int32_t>(count), std::memory_order_release);
}

void Board::WaitsNoMore() { Own()->waiting = 0; }

Board::Circle Board::WaitingInCircle() const {
  std::vector<const Entry*> stuck;
  for (const Entry& entry : table_->entries)
    if (entry.pid != 0 && entry.waiting > 0 && IsAlive(entry.pid)) stuck.push_back(&entry);
  const auto is_stuck = [&](std::int32_t pid) {
    return std::any_of(stuck.begin(), stuck.end(), [&](const Entry* e) { return e->pid == pid; });
  };
  for (std::size_t before = stuck.size() + 1; before != stuck.size();) {
    before = stuck.size();
    std::erase_if(stuck, [&](const Entry* entry) {
      for (int i = 0; i < std::min<int>(entry->waiting, kMissing); ++i)
        if (!is_stuck(entry->missing[i])) return true;
      return false;
    });
  }
  if (!is_stuck(getpid())) return {};
  std::sort(stuck.begin(), stuck.end(), [](const Entry* a, const Entry* b) { return a->rank < b->rank; });
  Circle circle;
  circle.seen = stuck.size();
  for (const Entry* entry : stuck) {
    circle.seen = MixBits(MixBits(circle.seen, static_cast<std::uint64_t>(entry->pid)), entry->progress);
    circle.pids.push_back(entry->pid);
    circle.waits.emplace_back(entry->what);
  }
  return circle;
}

std::vector<pid_t> Board::Others() const {
  std::vector<pid_t> pids;
  for (const Entry& entry : table_->entries)
    if (entry.pid != 0 && entry.pid != getpid() && IsAlive(entry.pid)) pids.push_back(entry.pid);
  return pids;
}

bool Board::IsWaiting(pid_t pid) const {
  return std::any_of(std::begin(table_->entries), std::end(table_->entries),
                     [&](const Entry& entry) { return entry.pid == pid && entry.waiting > 0; });
}

bool Board::FirstFault() { return table_->faults.fetch_add(1) == 0; }

namespace {

// The text behind the name in /proc/PID/.../stat, which begins with the state; empty: no such process.
std::string StatOf(const std::string& path) {
  char text[1024];
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (size <= 0) return "";
  text[size] = '\0';
  const char* name_end = std::strrchr(text, ')');
  return name_end ? name_end + 2 : "";
}

std::int64_t TicksIn(const std::string& path) {
  const std::string stat = StatOf(path);
  if (stat.empty()) return -1;
  unsigned long user = 0, system = 0;  // fields 14 and 15; the state is field 3
  if (std::sscanf(stat.c_str(), "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2) return -1;
  return static_cast<std::int64_t>(user + system);
}

}  // namespace

bool IsAlive(pid_t pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return false;
  const std::string stat = StatOf("/proc/" + std::to_string(pid) + "/stat");
  return !stat.empty() && stat[0] != 'Z' && stat[0] != 'X';
}

std::int64_t TicksOfMainThread(pid_t pid) {
  const std::string id = std::to_string(pid);
  return TicksIn("/proc/" + id + "/task/" + id + "/stat");
}

std::int64_t TicksOfProcess(pid_t pid) { return TicksIn("/proc/" + std::to_string(pid) + "/stat"); }

}  // namespace ebbtide::phantom
