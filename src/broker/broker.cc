// Tickets as files, and their locks.
#include "broker/broker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

namespace ebbtide::broker {
namespace {

namespace fs = std::filesystem;

constexpr auto kBetweenTries = std::chrono::milliseconds(20);
constexpr std::size_t kLongestTicket = 4096;
constexpr const char* kLock = "lock";
constexpr const char* kTicket = "ticket-";

// A descriptor that is closed at the end.
class File {
 public:
  explicit File(int number) : number_(number) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (number_ >= 0) close(number_);
  }
  int get() const { return number_; }
  bool ok() const { return number_ >= 0; }

 private:
  int number_;
};

std::string PathOf(const std::string& folder, std::int64_t number) {
  return fmt::format("{}/{}{}", folder, kTicket, number);
}

bool Locks(int file, int how) {
  int result = 0;
  do result = flock(file, how);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

std::string Read(int file) {
  std::string text(kLongestTicket, '\0');
  const ssize_t count = pread(file, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

Status Write(int file, const std::string& text, const std::string& path) {
  const auto size = static_cast<ssize_t>(text.size());
  if (pwrite(file, text.data(), text.size(), 0) != size || ftruncate(file, size) != 0) {
    return Fail("{}: {}", path, std::strerror(errno));
  }
  return {};
}

std::string TextOf(const Holder& holder) {
  const std::string command = holder.command.substr(0, kLongestTicket / 2);
  return fmt::format("{} {} {} {}", holder.pid, holder.bytes, holder.granted ? 1 : 0, command);
}

std::optional<Holder> Parse(const std::string& text, std::int64_t number) {
  Holder holder{.number = number, .command = {}};
  int granted = 0, at = 0;
  if (std::sscanf(text.c_str(), "%ld %ld %d %n", &holder.pid, &holder.bytes, &granted, &at) < 3) return std::nullopt;
  holder.granted = granted == 1;
  holder.command = text.substr(static_cast<std::size_t>(at));
  return holder;
}

// The lock of the folder, held while this lives; its file holds the number of the last ticket.
class Guard {
 public:
  explicit Guard(const std::string& folder)
      : path_(folder + "/" + kLock), file_(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    held_ = file_.ok() && Locks(file_.get(), LOCK_EX);
  }
  Status ok() const { return held_ ? Status() : Status(Fail("{}: {}", path_, std::strerror(errno))); }
  Result<std::int64_t> NextNumber() {
    const std::int64_t number = std::strtoll(Read(file_.get()).c_str(), nullptr, 10) + 1;
    EBB_RETURN_IF_ERROR(Write(file_.get(), fmt::format("{}", number), path_));
    return number;
  }

 private:
  std::string path_;
  File file_;
  bool held_ = false;
};

// The tickets whose lock is held, by number; the others are removed. `own` is not asked for its lock, which is held.
// Behind a Guard.
std::vector<Holder> Living(const std::string& folder, std::int64_t own) {
  std::vector<Holder> living;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kTicket)) continue;
    const std::int64_t number = std::strtoll(name.c_str() + std::strlen(kTicket), nullptr, 10);
    const File file(open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    if (!file.ok()) continue;
    if (number != own && Locks(file.get(), LOCK_EX | LOCK_NB)) {
      unlink(entry.path().c_str());
      continue;
    }
    if (const auto holder = Parse(Read(file.get()), number)) living.push_back(*holder);
  }
  std::ranges::sort(living, {}, &Holder::number);
  return living;
}

// Ours alone: another user's folder of this name would let them in.
Status MakeFolder(const std::string& folder) {
  std::error_code error;
  if (const fs::path above = fs::path(folder).parent_path(); !above.empty()) fs::create_directories(above, error);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return Fail("{}: {}", folder, std::strerror(errno));
  struct stat about = {};
  if (lstat(folder.c_str(), &about) != 0 || !S_ISDIR(about.st_mode) || about.st_uid != geteuid()) {
    return Fail("{}: expected a folder of your own", folder);
  }
  return {};
}

}  // namespace

Bytes Moment::granted() const {
  Bytes sum = 0;
  for (const Holder& holder : before) sum += holder.granted ? holder.bytes : 0;
  return sum;
}

Result<Ticket> Ticket::Join(const std::string& folder, Bytes bytes, const std::string& command) {
  EBB_RETURN_IF_ERROR(MakeFolder(folder));
  Guard guard(folder);
  EBB_RETURN_IF_ERROR(guard.ok());
  EBB_ASSIGN_OR_RETURN(const std::int64_t number, guard.NextNumber());
  const std::string path = PathOf(folder, number);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);  // inherited
  if (file < 0) return Fail("{}: {}", path, std::strerror(errno));
  Ticket ticket(folder, number, file, bytes, command);
  if (!Locks(file, LOCK_EX | LOCK_NB)) return Fail("{}: {}", path, std::strerror(errno));
  EBB_RETURN_IF_ERROR(Write(file, TextOf({number, getpid(), bytes, false, command}), path));
  return ticket;
}

Ticket::Ticket(Ticket&& other) noexcept
    : folder_(std::move(other.folder_)),
      number_(other.number_),
      file_(std::exchange(other.file_, -1)),
      bytes_(other.bytes_),
      command_(std::move(other.command_)) {}

Ticket::~Ticket() {
  if (file_ >= 0) close(file_);  // the next who looks removes the ticket, if nobody else holds it
}

Result<Ticket::Answer> Ticket::Try(Bytes capacity) {
  const Guard guard(folder_);
  EBB_RETURN_IF_ERROR(guard.ok());
  Answer answer;
  answer.moment.capacity = capacity;
  bool first = true;
  for (const Holder& holder : Living(folder_, number_)) {
    if (holder.number == number_) continue;
    if (!holder.granted && holder.number > number_) continue;
    if (!holder.granted) first = false;
    answer.moment.before.push_back(holder);
  }
  if (!first || answer.moment.granted() > capacity - bytes_) return answer;
  EBB_RETURN_IF_ERROR(Write(file_, TextOf({number_, getpid(), bytes_, true, command_}), PathOf(folder_, number_)));
  answer.granted = true;
  return answer;
}

Status Ticket::Wait(Bytes capacity, const std::function<void(const Moment&)>& waits,
                    const std::function<bool()>& stop) {
  std::vector<std::int64_t> told = {-1};
  while (true) {
    EBB_ASSIGN_OR_RETURN(const Answer answer, Try(capacity));
    if (answer.granted) return {};
    std::vector<std::int64_t> now;
    for (const Holder& holder : answer.moment.before) now.push_back(holder.number);
    if (now != told && waits) waits(answer.moment);
    told = std::move(now);
    if (stop && stop()) return FailAs(ErrorKind::kStopped, "stopped");
    std::this_thread::sleep_for(kBetweenTries);
  }
}

Result<std::vector<Holder>> Holders(const std::string& folder) {
  EBB_RETURN_IF_ERROR(MakeFolder(folder));
  const Guard guard(folder);
  EBB_RETURN_IF_ERROR(guard.ok());
  return Living(folder, -1);
}

}  // namespace ebbtide::broker
