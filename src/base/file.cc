// Reads and writes by the system's calls, so that limits hold for pipes too and a file appears by a rename.
#include "base/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/gzip.h"

namespace ebbtide {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { Close(); }

  int get() const { return fd_; }
  int Take() { return std::exchange(fd_, -1); }
  void Reset(int fd) {
    Close();
    fd_ = fd;
  }
  // False where the system could not write what it had taken.
  bool Close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_ = -1;
};

int OpenRetrying(const char* path, int flags, mode_t mode = 0) {
  int fd = -1;
  do {
    fd = ::open(path, flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

tl::unexpected<Error> SystemError(const std::string& path, int code) {
  switch (code) {
    case ENOENT: return Fail("{}: no such file", path);
    case EISDIR: return Fail("{}: expected a file, found a folder", path);
    case EACCES: return Fail("{}: permission denied", path);
    case ELOOP: return Fail("{}: expected a file, found links that lead in a circle", path);
    default: return Fail("{}: {}", path, std::generic_category().message(code));
  }
}

#ifndef PIPEFS_MAGIC
constexpr auto PIPEFS_MAGIC = 0x50495045;
#endif

// Whether the descriptor is of a pipe that a shell made, `<(command)`: its other end is there. One with a name may wait
// for its writer for ever.
bool IsPipeOfShell(int file) {
  struct statfs where {};
  return ::fstatfs(file, &where) == 0 && where.f_type == PIPEFS_MAGIC;
}

// What can be read to its end: a regular file, or the pipe of a shell. Others block, never end, or hold no content.
Status CheckReadable(const std::string& path, const struct stat& status, bool is_pipe_of_shell) {
  const char* found = nullptr;
  if (S_ISDIR(status.st_mode)) found = "a folder";
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) found = "a device";
  if (S_ISSOCK(status.st_mode)) found = "a socket";
  if (S_ISFIFO(status.st_mode) && !is_pipe_of_shell) found = "a named pipe";
  if (found != nullptr) return Fail("{}: expected a file, found {}", path, found);
  return {};
}

}  // namespace

Result<int> OpenToRead(const std::string& path) {
  // Without O_NONBLOCK a named pipe without a writer would hold us up here, before anything is known about it.
  Descriptor file(OpenRetrying(path.c_str(), O_RDONLY | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0) {
    const int code = errno;
    if (code == ENXIO && ::stat(path.c_str(), &status) == 0) {  // a socket cannot be opened
      EBB_RETURN_IF_ERROR(CheckReadable(path, status, false));
    }
    return SystemError(path, code);
  }
  if (::fstat(file.get(), &status) != 0) return SystemError(path, errno);
  EBB_RETURN_IF_ERROR(CheckReadable(path, status, IsPipeOfShell(file.get())));
  if (::fcntl(file.get(), F_SETFL, 0) != 0) return SystemError(path, errno);
  return file.Take();
}

Result<std::string> ReadFile(const std::string& path, Bytes limit) {
  EBB_ASSIGN_OR_RETURN(const int descriptor, OpenToRead(path));
  const Descriptor file(descriptor);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return SystemError(path, errno);

  // Regular files tell their size; pipes do not, and any file may grow meanwhile.
  const auto most = static_cast<std::size_t>(limit) + 1;
  constexpr auto kChunk = static_cast<std::size_t>(kMiB);
  std::string content;
  if (status.st_size > 0) content.reserve(std::min(most, static_cast<std::size_t>(status.st_size) + 1));
  std::size_t filled = 0;
  while (filled <= static_cast<std::size_t>(limit)) {
    const std::size_t room = content.capacity() > filled ? content.capacity() : most;
    content.resize(std::min({most, filled + kChunk, room}));
    const ssize_t got = ::read(file.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(path, errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  content.resize(filled);
  if (static_cast<Bytes>(filled) > limit) return Fail("{}: larger than {}", path, FormatBytes(limit));
  if (!IsGzip(content)) return content;
  auto text = Gunzip(content, limit);
  if (!text) return Within(path, text.error());
  return text;
}

struct FileWriter::Output {
  std::string path;       // as the caller named it
  std::string target;     // what it names, links followed
  std::string temporary;  // empty: written to directly, or already renamed
  Descriptor file;
  std::optional<GzipEncoder> gzip;
  std::string compressed;

  ~Output() {
    if (!temporary.empty()) ::unlink(temporary.c_str());
  }

  Status WriteAll(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t put = ::write(file.get(), bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return SystemError(path, errno);
      bytes.remove_prefix(static_cast<std::size_t>(put));
    }
    return {};
  }

  Status Write(std::string_view piece, bool last) {
    if (!gzip) return WriteAll(piece);
    compressed.clear();
    gzip->Append(piece, last, compressed);
    return WriteAll(compressed);
  }
};

FileWriter::FileWriter(std::unique_ptr<Output> output) : output_(std::move(output)) {}
FileWriter::FileWriter(FileWriter&&) noexcept = default;
FileWriter& FileWriter::operator=(FileWriter&&) noexcept = default;
FileWriter::~FileWriter() = default;

Result<FileWriter> FileWriter::Create(const std::string& path) {
  auto output = std::make_unique<Output>();
  output->path = path;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return SystemError(path, EISDIR);
  output->target = fs::is_symlink(fs::symlink_status(path, error)) ? fs::weakly_canonical(path, error).string() : path;
  if (output->target.empty()) return SystemError(path, error.value());

  if (fs::exists(status) && !fs::is_regular_file(status)) {
    output->file.Reset(OpenRetrying(output->target.c_str(), O_WRONLY));
    if (output->file.get() < 0) return SystemError(path, errno);
  } else {
    static std::atomic<unsigned> counter = 0;
    // Another process with our number, on another machine, may write to the same folder: then the next name is free.
    while (output->file.get() < 0) {
      output->temporary = fmt::format("{}.{}.{}.tmp", output->target, ::getpid(), counter++);
      output->file.Reset(OpenRetrying(output->temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666));
      if (output->file.get() >= 0 || errno == EEXIST) continue;
      output->temporary.clear();
      if (errno == ENOENT) return Fail("{}: no such folder", path);
      return SystemError(path, errno);
    }
  }
  if (path.ends_with(".gz")) output->gzip.emplace();
  return FileWriter(std::move(output));
}

Status FileWriter::Append(std::string_view piece) { return output_->Write(piece, false); }

Status FileWriter::Commit() {
  EBB_RETURN_IF_ERROR(output_->Write({}, true));
  if (!output_->file.Close()) return SystemError(output_->path, errno);
  if (output_->temporary.empty()) return {};
  if (std::rename(output_->temporary.c_str(), output_->target.c_str()) != 0) return SystemError(output_->path, errno);
  output_->temporary.clear();
  return {};
}

Status WriteFile(const std::string& path, std::string_view content) {
  EBB_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path));
  EBB_RETURN_IF_ERROR(file.Append(content));
  return file.Commit();
}

}  // namespace ebbtide
