#include "kv_transfer/process_identity.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tandem::transfer {
namespace {

TEST(ProcessIdentity, IsStableAndNamesThisProcess) {
  const auto a = ProcessIdentity::Self();
  const auto b = ProcessIdentity::Self();
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(*a, *b);
  EXPECT_EQ(a->pid, ::getpid());
  EXPECT_GT(a->start_time, 0u);
  EXPECT_FALSE(a->host_id.empty());
}

TEST(PeerProcess, OfThisProcessIsNotGone) {
  const auto peer = PeerProcess::Open(*ProcessIdentity::Self());
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_FALSE(peer->Gone());
}

TEST(PeerProcess, OfAStoppedProcessIsNotGoneAndOfAKilledOneIs) {
  int to_parent[2];
  ASSERT_EQ(::pipe(to_parent), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const auto self = ProcessIdentity::Self();
    const std::uint64_t start = self.ok() ? self->start_time : 0;
    if (::write(to_parent[1], &start, sizeof start) != sizeof start) ::_exit(1);
    for (;;) ::pause();
  }
  ProcessIdentity child = *ProcessIdentity::Self();
  child.pid = pid;
  ASSERT_EQ(::read(to_parent[0], &child.start_time, sizeof child.start_time),
            static_cast<ssize_t>(sizeof child.start_time));
  const auto peer = PeerProcess::Open(child);
  ASSERT_TRUE(peer.ok()) << peer.status();
  ::kill(pid, SIGSTOP);
  EXPECT_FALSE(peer->Gone());
  ::kill(pid, SIGKILL);
  pollfd wait{peer->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 60'000), 1);
  EXPECT_TRUE(peer->Gone());
  ::waitpid(pid, nullptr, 0);
  EXPECT_TRUE(peer->Gone());
  EXPECT_EQ(PeerProcess::Open(child).status().code(), absl::StatusCode::kNotFound);
  ::close(to_parent[0]);
  ::close(to_parent[1]);
}

TEST(PeerProcess, OfAnotherHostNamespaceOrLifeIsRefused) {
  const ProcessIdentity self = *ProcessIdentity::Self();
  ProcessIdentity other = self;
  other.host_id = "another";
  EXPECT_EQ(PeerProcess::Open(other).status().code(), absl::StatusCode::kFailedPrecondition);
  other = self;
  other.pid_namespace += 1;
  EXPECT_EQ(PeerProcess::Open(other).status().code(), absl::StatusCode::kFailedPrecondition);
  other = self;
  other.start_time += 1;
  EXPECT_EQ(PeerProcess::Open(other).status().code(), absl::StatusCode::kNotFound);
  for (const std::int64_t pid : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    other = self;
    other.pid = pid;
    EXPECT_EQ(PeerProcess::Open(other).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tandem::transfer
