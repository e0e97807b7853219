// Shares of a GPU among real processes: turns, room, and ends of every kind.
#include "broker/broker.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>

namespace ebbtide::broker {
namespace {

class Broker : public testing::Test {
 protected:
  Broker() {
    std::string name = (std::filesystem::temp_directory_path() / "ebbtide-broker-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Broker() override { std::filesystem::remove_all(folder_); }

  Ticket Join(Bytes bytes) { return std::move(*Ticket::Join(folder_, bytes, "test")); }
  Bytes Granted() {
    Bytes sum = 0;
    for (const Holder& holder : *Holders(folder_)) sum += holder.granted ? holder.bytes : 0;
    return sum;
  }
  // A process that takes a share, says so, and holds it until it is killed.
  pid_t StartHolder(Bytes bytes, Bytes capacity, int said) {
    const pid_t child = fork();
    if (child != 0) return child;
    auto ticket = Ticket::Join(folder_, bytes, "child");
    if (!ticket || !ticket->Wait(capacity, nullptr, nullptr)) _exit(1);
    const char done = 'g';
    if (write(said, &done, 1) != 1) _exit(1);
    while (true) pause();
  }

  // A sweep takes more.
  static int Starts() {
    const char* asked = std::getenv("EBBTIDE_BROKER_STARTS");
    return asked != nullptr ? std::atoi(asked) : 60;
  }

  std::string folder_;
};

TEST_F(Broker, WhoFitsStartsAndWhoDoesNotWaits) {
  Ticket a = Join(6), b = Join(5);
  EXPECT_TRUE(a.Try(10)->granted);
  const auto answer = b.Try(10);
  EXPECT_FALSE(answer->granted);
  ASSERT_EQ(answer->moment.before.size(), 1U);
  EXPECT_EQ(answer->moment.granted(), 6);
  EXPECT_EQ(answer->moment.before[0].command, "test");
}

TEST_F(Broker, AnEndGivesTheShareBack) {
  Ticket b = [&] {
    Ticket a = Join(6);
    EXPECT_TRUE(a.Try(10)->granted);
    Ticket waits = Join(5);
    EXPECT_FALSE(waits.Try(10)->granted);
    return waits;
  }();
  EXPECT_TRUE(b.Try(10)->granted);
  EXPECT_EQ(Granted(), 5);
}

TEST_F(Broker, NobodyOvertakes) {
  Ticket a = Join(6), large = Join(8), small = Join(2);
  EXPECT_TRUE(a.Try(10)->granted);
  EXPECT_FALSE(large.Try(10)->granted);
  EXPECT_FALSE(small.Try(10)->granted);  // it would fit, and has to wait for the large one
}

TEST_F(Broker, AProcessThatIsKilledFreesItsShare) {
  int said[2];
  ASSERT_EQ(pipe(said), 0);
  const pid_t child = StartHolder(8, 10, said[1]);
  char byte = 0;
  ASSERT_EQ(read(said[0], &byte, 1), 1);
  EXPECT_EQ(Granted(), 8);
  Ticket next = Join(9);
  EXPECT_FALSE(next.Try(10)->granted);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(next.Try(10)->granted);
  close(said[0]), close(said[1]);
}

TEST_F(Broker, AProgramKeepsTheShareOfItsLauncher) {
  int said[2];
  ASSERT_EQ(pipe(said), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    auto ticket = Ticket::Join(folder_, 8, "launcher");
    if (!ticket || !ticket->Wait(10, nullptr, nullptr)) _exit(1);
    const pid_t program = fork();
    if (program == 0) {
      while (true) pause();
    }
    if (write(said[1], &program, sizeof program) != sizeof program) _exit(1);
    while (true) pause();
  }
  pid_t program = 0;
  ASSERT_EQ(read(said[0], &program, sizeof program), static_cast<ssize_t>(sizeof program));
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  EXPECT_EQ(Granted(), 8);  // the program runs on, and has its memory
  kill(program, SIGKILL);
  for (int i = 0; i < 1000 && Granted() > 0; ++i) usleep(1000);  // it is not our child: nobody tells us of its end
  EXPECT_EQ(Granted(), 0);
  close(said[0]), close(said[1]);
}

// Processes come and are killed in any order: what is granted never exceeds the card, and in the end all of it is free.
TEST_F(Broker, StartsAndKills) {
  constexpr Bytes kCard = 100;
  const int starts = Starts();
  std::mt19937_64 random(5);
  int said[2];
  ASSERT_EQ(pipe(said), 0);
  std::vector<pid_t> living;
  int killed = 0;
  Bytes most = 0;
  for (int started = 0; started < starts || !living.empty();) {
    if (started < starts && living.size() < 8 && random() % 2 == 0) {
      living.push_back(StartHolder(static_cast<Bytes>(1 + random() % kCard), kCard, said[1]));
      ++started;
    } else if (!living.empty()) {
      const std::size_t which = random() % living.size();
      kill(living[which], SIGKILL);
      waitpid(living[which], nullptr, 0);
      living.erase(living.begin() + static_cast<std::ptrdiff_t>(which));
      ++killed;
    }
    const Bytes granted = Granted();
    most = std::max(most, granted);
    ASSERT_LE(granted, kCard);
  }
  EXPECT_EQ(killed, starts);
  EXPECT_GT(most, 0);
  EXPECT_TRUE(Holders(folder_)->empty());
  close(said[0]), close(said[1]);
}

// Each of many processes is killed while it waits, killed when it has its share, or ends by itself: all that live to
// their turn have it, however many come and go before them.
TEST_F(Broker, NobodyStarves) {
  constexpr Bytes kCard = 100;
  const int starts = Starts();
  int said[2];
  ASSERT_EQ(pipe(said), 0);
  int expected = 0, granted = 0, living = 0;
  const auto reap = [&] {
    waitpid(-1, nullptr, 0);
    --living;
  };
  for (int i = 0; i < starts; ++i) {
    if (living == 16) reap();
    const int fate = i % 3;
    expected += fate == 0 ? 0 : 1;
    ++living;
    if (fork() != 0) continue;
    // Now and then one that wants nearly all of the card.
    auto ticket = Ticket::Join(folder_, i % 10 == 5 ? kCard : 1 + (i * 37) % 60, "child");
    if (!ticket) _exit(1);
    if (fate == 0) raise(SIGKILL);
    if (!ticket->Wait(kCard, nullptr, nullptr)) _exit(1);
    const char done = 'g';
    if (write(said[1], &done, 1) != 1) _exit(1);
    if (fate == 1) raise(SIGKILL);
    _exit(0);
  }
  close(said[1]);
  while (living > 0) reap();
  for (char byte = 0; read(said[0], &byte, 1) == 1;) ++granted;
  EXPECT_EQ(granted, expected);
  EXPECT_TRUE(Holders(folder_)->empty());
  close(said[0]);
}

}  // namespace
}  // namespace ebbtide::broker
