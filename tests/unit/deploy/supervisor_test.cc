#include "deploy/serve/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tandem::deploy {
namespace {

using ::testing::HasSubstr;

class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() {
    char pattern[] = "/tmp/tandem-supervisor-XXXXXX";
    folder_ = ::mkdtemp(pattern);
  }
  ~SupervisorTest() override { std::filesystem::remove_all(folder_); }

  ChildProcess::Command Shell(const std::string& name, const std::string& script) {
    return {name, {"/bin/sh", "-c", script}, folder_ / (name + ".log")};
  }

  std::filesystem::path folder_;
};

TEST_F(SupervisorTest, ReportsHowAChildEndedWithItsLastLines) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.Start(Shell("quiet", "exec sleep 1000")).ok());
  ASSERT_TRUE(
      supervisor.Start(Shell("broken", "echo loading; echo no such model >&2; exit 3")).ok());
  Supervisor::Event event = supervisor.Wait(Deadline());
  ASSERT_EQ(event.what, Supervisor::What::kChildEnded);
  const std::string report(FromAbsl(Supervisor::Report(event).message()));
  EXPECT_THAT(report, HasSubstr("broken"));
  EXPECT_THAT(report, HasSubstr("exit status 3"));
  EXPECT_THAT(report, HasSubstr("no such model"));
}

TEST_F(SupervisorTest, NamesTheSignalThatKilledAChild) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.Start(Shell("victim", "kill -9 $$")).ok());
  EXPECT_THAT(supervisor.Wait(Deadline()).how, HasSubstr("signal 9"));
}

TEST_F(SupervisorTest, StopSignalIsAnEventAndChildrenDoNotGetIt) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.Start(Shell("child", "exec sleep 1000")).ok());
  ::raise(SIGINT);
  EXPECT_EQ(supervisor.Wait(Deadline()).what, Supervisor::What::kStopSignal);
  EXPECT_EQ(supervisor.Wait(Deadline(SteadyNow())).what, Supervisor::What::kTimeout);
}

TEST_F(SupervisorTest, StopAllIsCleanWhenEveryChildExitsWithStatusZero) {
  Supervisor supervisor;
  const auto ready = folder_ / "ready";
  ASSERT_TRUE(supervisor
                  .Start(Shell("polite", "trap 'exit 0' TERM; echo up > " + ready.string() +
                                             "; while :; do sleep 0.05; done"))
                  .ok());
  ASSERT_EQ(*supervisor.AwaitFirstLine(ready, Deadline()), "up");
  EXPECT_TRUE(supervisor.StopAll(std::chrono::hours(1)).ok());
}

TEST_F(SupervisorTest, StopAllStopsTheLastStartedBeforeTheOthers) {
  Supervisor supervisor;
  const std::string order = (folder_ / "order").string();
  for (const char* name : {"node", "router"}) {
    const auto ready = folder_ / (std::string(name) + ".ready");
    ASSERT_TRUE(
        supervisor
            .Start(Shell(name, fmt::format("trap 'sleep 0.1; echo {0} >> {1}; exit 0' TERM; "
                                           "echo up > {2}; while :; do sleep 0.02; done",
                                           name, order, ready.string())))
            .ok());
    ASSERT_TRUE(supervisor.AwaitFirstLine(ready, Deadline()).ok());
  }
  EXPECT_TRUE(supervisor.StopAll(std::chrono::hours(1)).ok());
  std::ifstream in(order);
  std::string first, second;
  in >> first >> second;
  EXPECT_EQ(first, "router");
  EXPECT_EQ(second, "node");
}

TEST_F(SupervisorTest, StopAllKillsAfterPatienceAndSaysSo) {
  Supervisor supervisor;
  const auto ready = folder_ / "ready";
  ASSERT_TRUE(supervisor
                  .Start(Shell("stubborn", "trap '' TERM; echo up > " + ready.string() +
                                               "; while :; do sleep 0.05; done"))
                  .ok());
  ASSERT_TRUE(supervisor.AwaitFirstLine(ready, Deadline()).ok());
  Status status = supervisor.StopAll(std::chrono::milliseconds(100));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("stubborn: killed by signal 9"));
}

TEST_F(SupervisorTest, AwaitFirstLineEndsWithTheChildsReport) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.Start(Shell("short", "echo port taken; exit 1")).ok());
  auto line = supervisor.AwaitFirstLine(folder_ / "never", Deadline());
  EXPECT_TRUE(absl::IsUnavailable(line.status()));
  EXPECT_THAT(std::string(line.status().message()), HasSubstr("port taken"));
}

TEST_F(SupervisorTest, ProgramThatIsNotThereIsAnError) {
  Supervisor supervisor;
  Status status = supervisor.Start({"gone", {"/no/such/program"}, folder_ / "gone.log"});
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/program: No such file"));
}

TEST_F(SupervisorTest, DestructionLeavesNoChild) {
  pid_t pid = 0;
  {
    auto child = ChildProcess::Start(Shell("orphan", "exec sleep 1000"));
    ASSERT_TRUE(child.ok());
    pid = child->pid();
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

}  // namespace
}  // namespace tandem::deploy
