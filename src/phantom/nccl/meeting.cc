// One file in memory per communicator: a page of the meeting, then for each rank a page of its own and its posts. What
// was never written takes no memory.
#include "phantom/nccl/meeting.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "phantom/core/program.h"
#include "phantom/nccl/board.h"

namespace ebbtide::phantom {
namespace {

constexpr std::size_t kPage = 4096;
enum : std::int32_t { kNobody = 0, kHere = 1, kLeft = 2 };

// Descriptors stay open to the end of the process: closing one would drop the locks of all places that it holds.
int OpenOnce(const std::string& name) {
  static std::mutex mutex;
  static auto* open_files = new std::map<std::pair<std::string, pid_t>, int>;
  std::lock_guard lock(mutex);
  int& fd = open_files->try_emplace({name, getpid()}, -1).first->second;
  if (fd < 0) fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  return fd;
}

struct flock LockOf(short type, int rank) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = 1 + rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

struct Meeting::Post {
  std::atomic<std::uint64_t> number;  // of a collective; of a send 1, or 0 where it was taken
  Call call;
  alignas(kPage) std::byte payload[kLargestPayload];
};

struct Meeting::Shared {
  std::atomic<std::int32_t> ranks;
  std::atomic<std::uint32_t> version;
  std::atomic<std::int32_t> faulted;  // 1: `fault` is being written, 2: it is there
  char fault[2048];
};

struct Meeting::Place {
  std::atomic<std::int32_t> state, pid, rank_of_run;
  std::atomic<std::uint64_t> posted, done;
  alignas(kPage) Post posts[kRing];
  Post sends[kSends];
};

Meeting::Place& Meeting::PlaceOf(int rank) const {
  auto* begin = reinterpret_cast<std::byte*>(shared_) + kPage;
  return *reinterpret_cast<Place*>(begin + static_cast<std::size_t>(rank) * sizeof(Place));
}

std::string Meeting::Join(const std::string& name, int ranks, int rank, std::shared_ptr<Meeting>& out) {
  std::shared_ptr<Meeting> made(new Meeting);
  made->ranks_ = ranks;
  made->name_ = name;
  made->fd_ = OpenOnce(name);
  made->bytes_ = kPage + static_cast<std::size_t>(ranks) * sizeof(Place);
  if (made->fd_ < 0 || ftruncate(made->fd_, static_cast<off_t>(made->bytes_)) != 0)
    return std::string("cannot open shared memory: ") + std::strerror(errno);
  void* at = mmap(nullptr, made->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, made->fd_, 0);
  if (at == MAP_FAILED) return std::string("cannot map shared memory: ") + std::strerror(errno);
  made->shared_ = static_cast<Shared*>(at);
  std::int32_t before = 0;
  if (!made->shared_->ranks.compare_exchange_strong(before, ranks) && before != ranks)
    return "a communicator of " + std::to_string(ranks) + " ranks, of which another rank says that it has " +
           std::to_string(before);
  Place& place = made->PlaceOf(rank);
  std::int32_t nobody = kNobody;
  if (!place.state.compare_exchange_strong(nobody, kLeft))  // kHere when all of it is written
    return "two processes say that they are rank " + std::to_string(rank) + " of one communicator";
  struct flock lock = LockOf(F_WRLCK, rank);
  fcntl(made->fd_, F_SETLK, &lock);
  place.pid = getpid();
  const char* of_run = std::getenv("RANK");
  place.rank_of_run = ProgramRank() >= 0 ? ProgramRank() : of_run ? std::atoi(of_run) : -1;
  place.state.store(kHere, std::memory_order_release);
  made->Wake();
  out = std::move(made);
  return "";
}

Meeting::~Meeting() {
  if (shared_) munmap(shared_, bytes_);
}

void Meeting::Leave(int rank) {
  PlaceOf(rank).state = kLeft;
  Wake();
}

bool Meeting::IsHere(int rank) const { return PlaceOf(rank).pid != 0; }

bool Meeting::IsGone(int rank) const {
  const Place& place = PlaceOf(rank);
  if (place.pid == 0) return false;
  if (place.state == kLeft) return true;
  if (place.pid == getpid()) return false;
  struct flock lock = LockOf(F_WRLCK, rank);
  return fcntl(fd_, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

pid_t Meeting::PidOf(int rank) const { return PlaceOf(rank).pid; }

std::string Meeting::NameOfRank(int rank) const {
  const std::int32_t of_run = PlaceOf(rank).rank_of_run;
  if (PlaceOf(rank).pid != 0 && of_run >= 0) return "rank " + std::to_string(of_run);
  return "rank " + std::to_string(rank) + " of the group";
}

std::uint64_t Meeting::Collective(int rank, const Call& call, const std::byte* payload) {
  Place& place = PlaceOf(rank);
  const std::uint64_t number = place.posted.load(std::memory_order_relaxed) + 1;
  Post& post = place.posts[number % kRing];
  post.number.store(0, std::memory_order_release);
  post.call = call;
  if (call.payload > 0) std::memcpy(post.payload, payload, static_cast<std::size_t>(call.payload));
  post.number.store(number, std::memory_order_release);
  place.posted.store(number, std::memory_order_release);
  Wake();
  return number;
}

const Meeting::Post* Meeting::PostOf(int rank, std::uint64_t number) const {
  const Post& post = PlaceOf(rank).posts[number % kRing];
  return post.number.load(std::memory_order_acquire) == number ? &post : nullptr;
}

const Meeting::Post* Meeting::LastOf(int rank) const {
  const std::uint64_t number = PlaceOf(rank).posted.load(std::memory_order_acquire);
  return number == 0 ? nullptr : PostOf(rank, number);
}

void Meeting::Done(int rank, std::uint64_t number) {
  PlaceOf(rank).done.store(number, std::memory_order_release);
  Wake();
}

bool Meeting::MayPost(int rank) const {
  const std::uint64_t number = PlaceOf(rank).posted + 1;
  for (int other = 0; other < ranks_; ++other)
    if (!IsGone(other) && PlaceOf(other).done + kRing < number) return false;
  return true;
}

bool Meeting::Send(int rank, const Call& call, const std::byte* payload) {
  for (Post& post : PlaceOf(rank).sends) {
    if (post.number.load(std::memory_order_acquire) != 0) continue;
    post.call = call;
    if (call.payload > 0) std::memcpy(post.payload, payload, static_cast<std::size_t>(call.payload));
    post.number.store(1, std::memory_order_release);
    Wake();
    return true;
  }
  return false;
}

const Meeting::Post* Meeting::SentBy(int from, int to, std::uint64_t index) const {
  for (const Post& post : PlaceOf(from).sends) {
    if (post.number.load(std::memory_order_acquire) == 0) continue;
    if (post.call.root == to && post.call.index == index) return &post;
  }
  return nullptr;
}

void Meeting::Take(const Post* post) {
  const_cast<Post*>(post)->number.store(0, std::memory_order_release);
  Wake();
}

const Call& Meeting::CallOf(const Post* post) { return post->call; }
const std::byte* Meeting::PayloadOf(const Post* post) { return post->payload; }

std::uint32_t Meeting::version() const { return shared_->version.load(std::memory_order_acquire); }

void Meeting::Wake() const {
  shared_->version.fetch_add(1, std::memory_order_acq_rel);
  syscall(SYS_futex, &shared_->version, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Meeting::Sleep(std::uint32_t version) const {
  constexpr timespec kPause = {0, 100'000'000};
  syscall(SYS_futex, &shared_->version, FUTEX_WAIT, version, &kPause, nullptr, 0);
}

void Meeting::Fault(const std::string& text) {
  std::int32_t none = 0;
  if (!shared_->faulted.compare_exchange_strong(none, 1)) return;
  std::snprintf(shared_->fault, sizeof(shared_->fault), "%s", text.c_str());
  shared_->faulted.store(2, std::memory_order_release);
  Wake();
}

std::string Meeting::fault() const {
  return shared_->faulted.load(std::memory_order_acquire) == 2 ? shared_->fault : "";
}

}  // namespace ebbtide::phantom
