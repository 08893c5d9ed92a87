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
  Supervisor supervisor({});
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
  Supervisor supervisor({});
  ASSERT_TRUE(supervisor.Start(Shell("victim", "kill -9 $$")).ok());
  EXPECT_THAT(supervisor.Wait(Deadline()).how, HasSubstr("signal 9"));
}

TEST_F(SupervisorTest, StopSignalIsAnEventAndChildrenDoNotGetIt) {
  Supervisor supervisor({});
  ASSERT_TRUE(supervisor.Start(Shell("child", "exec sleep 1000")).ok());
  ::raise(SIGINT);
  EXPECT_EQ(supervisor.Wait(Deadline()).what, Supervisor::What::kStopSignal);
  EXPECT_EQ(supervisor.Wait(Deadline(SteadyNow())).what, Supervisor::What::kTimeout);
}

TEST_F(SupervisorTest, StopAllIsCleanWhenEveryChildExitsWithStatusZero) {
  Supervisor supervisor({});
  const auto ready = folder_ / "ready";
  ASSERT_TRUE(supervisor
                  .Start(Shell("polite", "trap 'exit 0' TERM; echo up > " + ready.string() +
                                             "; while :; do sleep 0.05; done"))
                  .ok());
  ASSERT_EQ(*supervisor.AwaitFirstLine(ready, Deadline()), "up");
  EXPECT_TRUE(supervisor.StopAll(std::chrono::hours(1)).ok());
}

TEST_F(SupervisorTest, StopAllStopsTheLastStartedBeforeTheOthers) {
  Supervisor supervisor({});
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
  Supervisor supervisor({});
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
  Supervisor supervisor({});
  ASSERT_TRUE(supervisor.Start(Shell("short", "echo port taken; exit 1")).ok());
  auto line = supervisor.AwaitFirstLine(folder_ / "never", Deadline());
  EXPECT_TRUE(absl::IsUnavailable(line.status()));
  EXPECT_THAT(std::string(line.status().message()), HasSubstr("port taken"));
}

TEST_F(SupervisorTest, ProgramThatIsNotThereIsAnError) {
  Supervisor supervisor({});
  Status status = supervisor.Start({"gone", {"/no/such/program"}, folder_ / "gone.log"});
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/program: No such file"));
}

TEST_F(SupervisorTest, StartsAgainWhatDiedAndAppendsToItsLog) {
  Supervisor::Options options;
  options.restart.backoff_min = std::chrono::milliseconds(1);
  std::vector<std::string> said;
  options.say = [&](const std::string& line) { said.push_back(line); };
  Supervisor supervisor(std::move(options));
  const std::string lives = (folder_ / "lives").string();
  const std::string script = "echo a life; echo x >> " + lives + "; if [ $(wc -l < " + lives +
                             ") -lt 3 ]; then kill -9 $$; fi; echo up > " +
                             (folder_ / "third").string() + "; exec sleep 1000";
  supervisor.KeepAlive();
  ASSERT_TRUE(supervisor.Start(Shell("phoenix", script)).ok());
  ASSERT_TRUE(supervisor.AwaitFirstLine(folder_ / "third", Deadline()).ok());
  ASSERT_EQ(said.size(), 2u);
  EXPECT_THAT(said[0], HasSubstr("phoenix"));
  EXPECT_THAT(said[0], HasSubstr("signal 9"));
  std::ifstream log(folder_ / "phoenix.log");
  int lines = 0;
  for (std::string line; std::getline(log, line);) lines += line == "a life" ? 1 : 0;
  EXPECT_EQ(lines, 3);
}

TEST_F(SupervisorTest, GivesUpLoudlyAfterRepeatedEarlyDeaths) {
  Supervisor::Options options;
  options.restart.backoff_min = std::chrono::milliseconds(1);
  Supervisor supervisor(std::move(options));
  supervisor.KeepAlive();
  ASSERT_TRUE(supervisor.Start(Shell("doomed", "echo no such model; exit 1")).ok());
  const Supervisor::Event event = supervisor.Wait(Deadline());
  ASSERT_EQ(event.what, Supervisor::What::kChildEnded);
  const std::string report(FromAbsl(Supervisor::Report(event).message()));
  EXPECT_THAT(report, HasSubstr("doomed"));
  EXPECT_THAT(report, HasSubstr("death 5 in a row"));
  EXPECT_THAT(report, HasSubstr("no such model"));
  EXPECT_TRUE(absl::IsUnavailable(supervisor.StopAll(std::chrono::hours(1))));
}

TEST_F(SupervisorTest, ANewLifeGetsTheArgumentsThatWereSet) {
  Supervisor::Options options;
  options.restart.backoff_min = std::chrono::milliseconds(1);
  Supervisor supervisor(std::move(options));
  supervisor.KeepAlive();
  ASSERT_TRUE(supervisor.Start(Shell("node", "kill -9 $$")).ok());
  const auto ready = folder_ / "ready";
  supervisor.SetArguments(
      "node", {"/bin/sh", "-c", "echo same port > " + ready.string() + "; exec sleep 1000"});
  EXPECT_EQ(*supervisor.AwaitFirstLine(ready, Deadline()), "same port");
}

TEST_F(SupervisorTest, KillsAStoppedChildOneWhoseStepIsStuckAndOneThatHangs) {
  Supervisor::Options options;
  options.restart.mode = RestartMode::kNever;
  options.stuck_after = std::chrono::milliseconds(50);
  std::string said;
  options.say = [&](const std::string& line) { said = line; };
  for (const std::string script : {"kill -STOP $$; exec sleep 1000",
                                   // $2: the file descriptor of its progress
                                   "while :; do echo 7 20000 10000 >&$2; sleep 0.01; done",
                                   "echo 0 0 0 >&$2; exec sleep 1000"}) {
    Supervisor supervisor(options);
    supervisor.KeepAlive();
    ChildProcess::Command command = Shell("stuck", script);
    command.arguments.push_back("sh");
    command.tells_progress = true;
    ASSERT_TRUE(supervisor.Start(std::move(command)).ok());
    const Supervisor::Event event = supervisor.Wait(Deadline());
    ASSERT_EQ(event.what, Supervisor::What::kChildEnded);
    EXPECT_THAT(event.how, HasSubstr("signal 9"));
    EXPECT_THAT(said, HasSubstr("stuck (pid"));
  }
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
