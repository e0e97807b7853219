// Files: what is written is read, nothing half-written is ever seen, and no file makes us hold more than we allow.
#include "base/file.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/gzip.h"

namespace ebbtide {
namespace {

namespace fs = std::filesystem;

std::string Compress(std::string_view content) {
  std::string out;
  GzipEncoder().Append(content, true, out);
  return out;
}

std::string Complaint(const Result<std::string>& result) { return result ? "valid" : result.error().message; }

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("ebbtide-file-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::ptrdiff_t Files() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

  // The bytes as they lie on the disk.
  std::string Raw(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  void PutRaw(const std::string& name, std::string_view content) const {
    std::ofstream(Path(name), std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
  }

  fs::path folder_;
};

TEST_F(FileTest, ReadsWhatWasWritten) {
  for (const std::string content : {"", "x", "two\nlines\n", "\x1f", "\x1fx"}) {
    for (const char* name : {"a.json", "a.json.gz"}) {
      ASSERT_TRUE(WriteFile(Path(name), content));
      EXPECT_EQ(ReadFile(Path(name), 100), content);
    }
  }
}

TEST_F(FileTest, AnyContentSurvivesCompression) {
  std::mt19937 random(1);
  for (const std::size_t size : {std::size_t{1} << 10, std::size_t{1} << 20, (std::size_t{5} << 20) + 3}) {
    std::string content(size, ' ');
    for (char& c : content) c = static_cast<char>(random());
    ASSERT_TRUE(WriteFile(Path("a.gz"), content));
    EXPECT_TRUE(ReadFile(Path("a.gz"), 16 * kMiB) == content);
    ASSERT_TRUE(WriteFile(Path("a"), content));
    EXPECT_TRUE(ReadFile(Path("a"), 16 * kMiB) == content);
  }
}

TEST_F(FileTest, GzipIsFoundByContentNotByName) {
  ASSERT_TRUE(WriteFile(Path("a.gz"), "hello"));
  EXPECT_EQ(Raw("a.gz").substr(0, 2), "\x1f\x8b");
  fs::rename(Path("a.gz"), Path("a.json"));
  EXPECT_EQ(ReadFile(Path("a.json"), 100), "hello");
  PutRaw("plain.gz", "hello");
  EXPECT_EQ(ReadFile(Path("plain.gz"), 100), "hello");
}

TEST_F(FileTest, GzipOfEqualContentIsEqual) {
  ASSERT_TRUE(WriteFile(Path("a.gz"), "hello"));
  ASSERT_TRUE(WriteFile(Path("b.gz"), "hello"));
  EXPECT_EQ(Raw("a.gz"), Raw("b.gz"));
  // RFC 1952: bytes 4 to 7 are the time, byte 3 the flags (8: a file name follows).
  EXPECT_EQ(Raw("a.gz").substr(3, 5), std::string(5, '\0'));
}

TEST_F(FileTest, PiecesMakeTheSameFileAsTheWhole) {
  std::string whole;
  auto writer = FileWriter::Create(Path("pieces.gz"));
  ASSERT_TRUE(writer);
  for (int i = 0; i < 3000; ++i) {
    const std::string piece = std::to_string(i * i) + ",";
    whole += piece;
    ASSERT_TRUE(writer->Append(piece));
  }
  EXPECT_FALSE(fs::exists(Path("pieces.gz")));
  ASSERT_TRUE(writer->Commit());
  EXPECT_EQ(ReadFile(Path("pieces.gz"), kMiB), whole);
  EXPECT_EQ(Files(), 1);
}

TEST_F(FileTest, WithoutCommitTheOldFileStays) {
  ASSERT_TRUE(WriteFile(Path("a"), "old"));
  {
    auto writer = FileWriter::Create(Path("a"));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->Append("new"));
    EXPECT_EQ(Files(), 2);
  }
  EXPECT_EQ(Files(), 1);
  EXPECT_EQ(ReadFile(Path("a"), 100), "old");
}

TEST_F(FileTest, ALinkStaysALink) {
  ASSERT_TRUE(WriteFile(Path("target"), "old"));
  fs::create_symlink("target", Path("link"));
  ASSERT_TRUE(WriteFile(Path("link"), "new"));
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(ReadFile(Path("target"), 100), "new");
}

TEST_F(FileTest, ADeviceIsWrittenToAndNotReplaced) {
  ASSERT_TRUE(WriteFile("/dev/null", "text"));
  struct stat status {};
  ASSERT_EQ(::stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

TEST_F(FileTest, WhatCannotBeReadIsNamed) {
  EXPECT_EQ(Complaint(ReadFile(Path("missing"), 1)), Path("missing") + ": no such file");
  EXPECT_EQ(Complaint(ReadFile(folder_.string(), 1)), folder_.string() + ": expected a file, found a folder");
  ASSERT_TRUE(WriteFile(Path("a"), "x"));
  EXPECT_EQ(Complaint(ReadFile(Path("a/b"), 1)), Path("a/b") + ": Not a directory");
}

TEST_F(FileTest, WhatMayNotBeReadIsNamed) {
  ASSERT_TRUE(WriteFile(Path("a"), "x"));
  fs::permissions(Path("a"), fs::perms::none);
  // Root may read everything, so a child steps down to be nobody.
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_nobody = ::geteuid() != 0 || ::setuid(65534) == 0;
    ::_exit(is_nobody && Complaint(ReadFile(Path("a"), 1)) == Path("a") + ": permission denied" ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(FileTest, WhatCannotBeWrittenIsNamed) {
  const auto complaint = [](const Status& status) { return status ? "valid" : status.error().message; };
  EXPECT_EQ(complaint(WriteFile(Path("no/such/a"), "x")), Path("no/such/a") + ": no such folder");
  EXPECT_EQ(complaint(WriteFile(folder_.string(), "x")), folder_.string() + ": expected a file, found a folder");
  EXPECT_EQ(complaint(WriteFile("/dev/full", "x")), "/dev/full: No space left on device");
  EXPECT_EQ(Files(), 0);
}

TEST_F(FileTest, ContentBeyondTheLimitIsRefused) {
  ASSERT_TRUE(WriteFile(Path("a"), std::string(1000, 'x')));
  ASSERT_TRUE(WriteFile(Path("a.gz"), std::string(1000, 'x')));
  EXPECT_TRUE(ReadFile(Path("a"), 1000));
  EXPECT_TRUE(ReadFile(Path("a.gz"), 1000));
  EXPECT_EQ(Complaint(ReadFile(Path("a"), 999)), Path("a") + ": larger than 999 B");
  EXPECT_EQ(Complaint(ReadFile(Path("a.gz"), 999)), Path("a.gz") + ": larger than 999 B when decompressed");
}

// None of these may hold us up or be read without end.
TEST_F(FileTest, WhatIsNoFileIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", Path("model.json"));
  std::filesystem::create_symlink(Path("circle"), Path("circle"));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  Path("socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(Complaint(ReadFile(Path("pipe"), kMiB)), Path("pipe") + ": expected a file, found a named pipe");
  EXPECT_EQ(Complaint(ReadFile(Path("model.json"), kMiB)), Path("model.json") + ": expected a file, found a device");
  EXPECT_EQ(Complaint(ReadFile(Path("socket"), kMiB)), Path("socket") + ": expected a file, found a socket");
  EXPECT_EQ(Complaint(ReadFile(Path("circle"), kMiB)),
            Path("circle") + ": expected a file, found links that lead in a circle");
  EXPECT_EQ(Complaint(ReadFile(folder_.string(), kMiB)), folder_.string() + ": expected a file, found a folder");
  ::close(listener);
}

TEST(File, ThePipeOfAShellIsRead) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "text", 4), 4);
  ::close(ends[1]);
  const Result<std::string> text = ReadFile("/dev/fd/" + std::to_string(ends[0]), kMiB);
  ::close(ends[0]);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "text");
}

TEST(Gzip, TruncatedAnywhereIsRefused) {
  std::mt19937 random(5);
  std::string content;
  for (int i = 0; i < 300; ++i) content += std::to_string(random());
  const std::string compressed = Compress(content);
  for (std::size_t length = 2; length < compressed.size(); ++length) {
    EXPECT_EQ(Complaint(Gunzip(std::string_view(compressed).substr(0, length), kMiB)),
              "gzip: truncated after " + std::to_string(length) + " bytes");
  }
  EXPECT_EQ(Gunzip(compressed, kMiB), content);
}

TEST(Gzip, DamageIsFoundAndNeverReadsAsSomethingElse) {
  std::string content;
  for (int i = 0; i < 300; ++i) content += std::to_string(i * i * i);
  const std::string compressed = Compress(content);
  for (std::size_t at = 0; at < compressed.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string damaged = compressed;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const auto text = Gunzip(damaged, kMiB);
      // The header has bytes that mean nothing to us: the time, the system.
      EXPECT_TRUE(!text || *text == content) << at;
    }
  }
}

TEST(Gzip, MembersFollowEachOther) {
  EXPECT_EQ(Gunzip(Compress("one ") + Compress("") + Compress("two"), kMiB), "one two");
  const std::string one = Compress("one");
  EXPECT_EQ(Complaint(Gunzip(one + "junk", kMiB)),
            "gzip: expected the end or another member at byte " + std::to_string(one.size()) + ", found other data");
}

TEST(Gzip, ABombIsRefusedAtTheRatio) {
  // A thousand to one: 80 MiB of blanks are some 80 KiB, of which 100 times are 8 MiB.
  const std::string bomb = Compress(std::string(static_cast<std::size_t>(80 * kMiB), ' '));
  ASSERT_LT(bomb.size(), std::size_t{100} << 10);
  const std::string message = Complaint(Gunzip(bomb, 4 * kGiB));
  EXPECT_TRUE(message.starts_with("expands to more than 64.00 MiB from ")) << message;
  // The same ratio within the slack is no bomb.
  EXPECT_EQ(Gunzip(Compress(std::string(static_cast<std::size_t>(16 * kMiB), ' ')), 4 * kGiB)->size(),
            static_cast<std::size_t>(16 * kMiB));
}

TEST(Gzip, ASizeClaimedInTheTrailerIsNotBelieved) {
  std::string compressed = Compress("small");
  compressed.replace(compressed.size() - 4, 4, "\xFF\xFF\xFF\xFF");
  EXPECT_EQ(Complaint(Gunzip(compressed, 4 * kGiB)).substr(0, 15), "gzip: corrupt a");
}

}  // namespace
}  // namespace ebbtide
