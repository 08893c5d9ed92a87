// What becomes of turns when a process that has one, or waits for one, is killed or stopped.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>

#include "common/worker/core_turns.h"

namespace tandem::worker {
namespace {

using scheduler::TurnRole;
using std::chrono::milliseconds;

std::string GroupName(const char* test) { return fmt::format("test-{}-{}", test, ::getpid()); }

// A member in a process of its own, forked before this one has joined: it shares no open file with
// it. `life` says "1" to the parent by tell() and lives on until it is killed.
class OtherProcess {
 public:
  OtherProcess(const std::string& group, TurnRole role,
               const std::function<void(CoreTurns&, const std::function<void()>& tell)>& life) {
    EXPECT_EQ(::pipe(pipe_), 0);
    pid_ = ::fork();
    if (pid_ != 0) {
      ::close(pipe_[1]);
      return;
    }
    auto turns = CoreTurns::Join(group, {.role = role});
    if (!turns.ok()) ::_exit(1);
    life(**turns, [this] { [[maybe_unused]] const auto n = ::write(pipe_[1], "1", 1); });
    while (true) ::pause();
  }
  ~OtherProcess() {
    End();
    ::close(pipe_[0]);
  }
  // The member that leaves after this is the last one, and removes the group's file.
  void End() {
    if (pid_ < 0) return;
    Signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  void AwaitTold() {
    char c = 0;
    ASSERT_EQ(::read(pipe_[0], &c, 1), 1);
  }
  void Signal(int signal) { ::kill(pid_, signal); }
  void Stop() {
    Signal(SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }

 private:
  int pipe_[2];
  pid_t pid_ = -1;
};

std::unique_ptr<CoreTurns> Member(const std::string& group, TurnRole role) {
  auto turns = CoreTurns::Join(group, {.role = role});
  EXPECT_TRUE(turns.ok()) << turns.status();
  return *std::move(turns);
}

class CoreTurnsProcessTest : public testing::TestWithParam<TurnRole> {
 protected:
  TurnRole other() const {
    return GetParam() == TurnRole::kDecode ? TurnRole::kPrefill : TurnRole::kDecode;
  }
  static void Compute(CoreTurns& turns, int steps) {
    for (int i = 0; i < steps; ++i) {
      turns.Take(milliseconds(1));
      turns.GiveWay();
      turns.Give();
    }
  }
};

TEST_P(CoreTurnsProcessTest, AHolderThatIsKilledIsPassedOver) {
  const std::string group = GroupName("killed");
  OtherProcess holder(group, other(), [](CoreTurns& turns, const auto& tell) {
    turns.Take(std::chrono::hours(1));
    tell();
  });
  holder.AwaitTold();
  auto turns = Member(group, GetParam());
  holder.Signal(SIGKILL);
  Compute(*turns, 100);
  EXPECT_EQ(turns->stats().turns, 100);
  EXPECT_EQ(turns->stats().passed_over, 1);
}

TEST_P(CoreTurnsProcessTest, AHolderThatIsStoppedCostsOneWaitAndComesBack) {
  const std::string group = GroupName("stopped");
  OtherProcess holder(group, other(), [](CoreTurns& turns, const auto& tell) {
    turns.Take(milliseconds(1));
    tell();
    while (true) {  // computes on, in turns
      turns.GiveWay();
      turns.Give();
      turns.Take(milliseconds(1));
      tell();
    }
  });
  holder.AwaitTold();
  auto turns = Member(group, GetParam());
  holder.Stop();
  // It may have been stopped while it had the turn, or while it waited; either costs one wait.
  Compute(*turns, 100);
  EXPECT_EQ(turns->stats().turns - turns->stats().given_way, 100);
  EXPECT_LE(turns->stats().passed_over, 1);
  holder.Signal(SIGCONT);
  for (int i = 0; i < 100; ++i) {  // both go on
    holder.AwaitTold();
    Compute(*turns, 1);
  }
  holder.End();
}

TEST_P(CoreTurnsProcessTest, OneThatIsKilledWhileItWaitsIsNotWaitedFor) {
  const std::string group = GroupName("waiter");
  OtherProcess waiter(group, other(), [](CoreTurns& turns, const auto& tell) {
    turns.Take(milliseconds(1));
    turns.Give();
    tell();
    while (true) {
      turns.Take(milliseconds(1));
      turns.Give();
    }
  });
  waiter.AwaitTold();
  auto turns = Member(group, GetParam());
  turns->Take(milliseconds(1));
  waiter.Signal(SIGKILL);
  turns->Give();
  Compute(*turns, 100);
  EXPECT_EQ(turns->stats().turns - turns->stats().given_way, 101);
  waiter.End();
}

INSTANTIATE_TEST_SUITE_P(Roles, CoreTurnsProcessTest,
                         testing::Values(TurnRole::kDecode, TurnRole::kPrefill),
                         [](const auto& info) {
                           return info.param == TurnRole::kDecode ? "DecodeGoesOn"
                                                                  : "PrefillGoesOn";
                         });

}  // namespace
}  // namespace tandem::worker
