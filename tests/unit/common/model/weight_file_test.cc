#include "common/model/weight_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "common/base/scoped_fd.h"
#include "common/ops/packed_matrix.h"
#include "tests/unit/common/model/weights_testing.h"

namespace tandem::model {
namespace {

using ::testing::HasSubstr;

class WeightFileTest : public ::testing::Test {
 protected:
  WeightFileTest() {
    SomeWindows(1).WriteGguf(folder_.File("model.gguf"));
    files_ = *OpenModelFiles(folder_.File("model.gguf"));
    const WeightReader reader(*files_.tensors, files_.naming, files_.config);
    plan_ = *WeightPlan::Make(reader, files_.config, ops::NumericsClass::kScalarF32);
    key_ = {.content = {{1, 2, 3}}, .layout = plan_->layout(), .bytes = plan_->bytes()};
  }
  StatusOr<WeightFile> Write() { return WeightFile::Write(path_, key_, *plan_, pool_, nullptr); }
  StatusOr<WeightFile> Open() { return WeightFile::Open(path_, key_, pool_, nullptr); }
  void Flip(std::int64_t at) const {
    const ScopedFd fd(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    char byte = 0;
    ASSERT_EQ(::pread(fd.get(), &byte, 1, at), 1);
    byte ^= 0x10;
    ASSERT_EQ(::pwrite(fd.get(), &byte, 1, at), 1);
  }

  testing::TempDir folder_;
  ModelFiles files_;
  std::optional<WeightPlan> plan_;
  WeightFileKey key_;
  ThreadPool pool_{2};
  const std::string path_ = folder_.File("packed");
};

TEST_F(WeightFileTest, HoldsThePlansBytesForItsOwnerAlone) {
  const auto written = Write();
  ASSERT_TRUE(written.ok()) << written.status();
  const auto file = Open();
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::byte> window(static_cast<std::size_t>(kWindow));
  std::vector<std::byte> spare;
  for (std::int64_t i = 0; i < plan_->num_windows(); ++i) {
    plan_->Fill(i, window.data(), spare);
    const std::int64_t bytes = std::min(kWindow, plan_->bytes() - i * kWindow);
    EXPECT_EQ(std::memcmp(file->data() + i * kWindow, window.data(), bytes), 0) << i;
    EXPECT_EQ(std::memcmp(written->data() + i * kWindow, window.data(), bytes), 0) << i;
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file->data()) % kWindow, 0u);
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(WeightFileTest, IsRefusedAtEveryOtherLength) {
  ASSERT_TRUE(Write().ok());
  const std::int64_t whole = key_.FileBytes();
  for (std::int64_t length :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{63}, std::int64_t{64}, kWindow - 1, kWindow,
        kWindow + 1, whole - kWindow, whole - 1, whole + 1, whole + kWindow}) {
    ASSERT_TRUE(Write().ok());
    ASSERT_EQ(::truncate(path_.c_str(), length), 0);
    EXPECT_EQ(Open().status().code(), absl::StatusCode::kInvalidArgument) << length;
  }
}

// A disk that lost power keeps the length and loses pages.
TEST_F(WeightFileTest, IsRefusedWithoutAnyPartOfIt) {
  for (std::int64_t at = 0; at < key_.FileBytes(); at += kWindow) {
    ASSERT_TRUE(Write().ok());
    const std::int64_t lost = at == key_.FileBytes() - kWindow ? 4096 : kWindow;
    const ScopedFd fd(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    const std::vector<char> zeros(static_cast<std::size_t>(lost));
    ASSERT_EQ(::pwrite(fd.get(), zeros.data(), zeros.size(), at), lost);
    EXPECT_EQ(Open().status().code(), absl::StatusCode::kInvalidArgument) << at;
  }
}

TEST_F(WeightFileTest, IsRefusedWithAnyByteChanged) {
  ASSERT_TRUE(Write().ok());
  const std::int64_t sums = 64 + plan_->num_windows() * 8;
  std::vector<std::int64_t> places = {
      kWindow,     kWindow + 1,      kWindow + 777,       2 * kWindow - 1,
      2 * kWindow, 3 * kWindow + 99, key_.FileBytes() - 1};
  for (std::int64_t at = 0; at < sums; ++at) places.push_back(at);
  for (std::int64_t at : places) {
    Flip(at);
    EXPECT_EQ(Open().status().code(), absl::StatusCode::kInvalidArgument) << at;
    Flip(at);
  }
  EXPECT_TRUE(Open().ok());
}

TEST_F(WeightFileTest, IsRefusedWhenItHoldsSomethingElse) {
  ASSERT_TRUE(Write().ok());
  WeightFileKey other = key_;
  other.content.bytes[0] ^= 1;
  EXPECT_FALSE(WeightFile::Open(path_, other, pool_, nullptr).ok());
  other = key_;
  other.layout.bytes[15] ^= 1;
  EXPECT_FALSE(WeightFile::Open(path_, other, pool_, nullptr).ok());
  other = key_;
  other.bytes -= 64;
  EXPECT_FALSE(WeightFile::Open(path_, other, pool_, nullptr).ok());
  EXPECT_EQ(WeightFile::Open(folder_.File("none"), key_, pool_, nullptr).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(WeightFileTest, IsRefusedWhenOthersMayHaveWrittenIt) {
  ASSERT_TRUE(Write().ok());
  for (mode_t mode : {0620, 0602, 0666}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    EXPECT_EQ(Open().status().code(), absl::StatusCode::kFailedPrecondition);
  }
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  EXPECT_TRUE(Open().ok());
  std::filesystem::rename(path_, folder_.File("elsewhere"));
  std::filesystem::create_symlink(folder_.File("elsewhere"), path_);
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kFailedPrecondition);
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(WeightFileTest, IsRefusedWhenItIsAnotherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_TRUE(Write().ok());
  ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
  const auto file = Open();
  EXPECT_EQ(file.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(file.status().ToString(), HasSubstr("belongs to user 65534"));
}

TEST_F(WeightFileTest, StaysWhatItWasForThoseWhoHaveItWhenItIsReplaced) {
  ASSERT_TRUE(Write().ok());
  const auto first = Open();
  ASSERT_TRUE(first.ok());
  const std::vector<std::byte> before(first->data(), first->data() + plan_->bytes());
  key_.content.bytes[0] ^= 1;
  ASSERT_TRUE(Write().ok());
  Flip(kWindow + 5);
  EXPECT_EQ(std::memcmp(first->data(), before.data(), before.size()), 0);
}

TEST_F(WeightFileTest, WithoutRoomItIsNotLeftBehind) {
  for (std::int64_t limit : {kWindow, kWindow + 1, 2 * kWindow + 4095, key_.FileBytes() - 1}) {
    const Child child([&] {
      std::signal(SIGXFSZ, SIG_IGN);
      const struct rlimit most = {static_cast<rlim_t>(limit), static_cast<rlim_t>(limit)};
      if (::setrlimit(RLIMIT_FSIZE, &most) != 0) return 2;
      ThreadPool alone(1);
      const Status status = WeightFile::Write(path_, key_, *plan_, alone, nullptr).status();
      return status.code() == absl::StatusCode::kResourceExhausted ? 0 : 1;
    });
    EXPECT_EQ(child.Wait(), 0) << limit;
    EXPECT_FALSE(std::filesystem::exists(path_)) << limit;
  }
}

// In a child, whose mounts end with it.
TEST_F(WeightFileTest, OnAFullDiskItIsNotLeftBehind) {
  constexpr int kCannotMount = 77;
  const std::string disk = folder_.File("disk");
  ASSERT_EQ(::mkdir(disk.c_str(), 0700), 0);
  const Child child([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=5m") != 0) {
      return kCannotMount;
    }
    const std::string path = disk + "/packed";
    ThreadPool alone(1);
    const Status status = WeightFile::Write(path, key_, *plan_, alone, nullptr).status();
    if (std::filesystem::exists(path)) return 2;
    return status.code() == absl::StatusCode::kResourceExhausted ? 0 : 1;
  });
  const int status = child.Wait();
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == kCannotMount) GTEST_SKIP() << "cannot mount a small disk here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(WeightFileTest, WhereNothingCanBeWrittenItSaysSo) {
  const Status status =
      WeightFile::Write(folder_.File("model.gguf") + "/x", key_, *plan_, pool_, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tandem::model
