#include "common/model/weight_sharing.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/base/scoped_fd.h"
#include "common/model/weights.h"
#include "tests/unit/common/model/weights_testing.h"

namespace tandem::model {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// What /proc/self/smaps says of the mapping of a file: its inode, and bytes in memory, whole and
// divided by the processes that have them.
struct Mapped {
  std::uint64_t inode = 0;
  std::int64_t resident_kb = 0;
  std::int64_t proportional_kb = 0;
};

Mapped MappingOf(const std::string& path) {
  std::ifstream smaps("/proc/self/smaps");
  Mapped mapped;
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string first, skip;
    words >> first;
    if (first.find('-') != std::string::npos) {
      std::uint64_t inode = 0;
      words >> skip >> skip >> skip >> inode;
      ours = line.ends_with(path);
      if (ours) mapped.inode = inode;
    } else if (ours && (first == "Rss:" || first == "Pss:")) {
      std::int64_t kb = 0;
      words >> kb;
      (first == "Rss:" ? mapped.resident_kb : mapped.proportional_kb) += kb;
    }
  }
  return mapped;
}

std::uint64_t InodeOf(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

class WeightSharingTest : public ::testing::Test {
 protected:
  WeightSharingTest() { Write(1); }

  void Write(std::uint64_t seed) const { SomeWindows(seed).WriteGguf(model_); }
  StatusOr<std::unique_ptr<Model>> Load(int threads = 2) const {
    return LoadScalar(model_, options_, threads);
  }
  std::vector<fs::path> Files(std::string_view ending) const {
    std::vector<fs::path> files;
    if (!fs::exists(options_.folder)) return files;
    for (const auto& entry : fs::directory_iterator(options_.folder)) {
      if (entry.path().extension() == ending) files.push_back(entry.path());
    }
    return files;
  }
  // Loads without the cache and compares.
  void ExpectRight(const Model& model) const {
    const auto own = LoadScalar(model_, std::nullopt);
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_EQ(model.InstanceHash({}), (*own)->InstanceHash({}));
    const auto same = [](const ops::PackedMatrix& a, const ops::PackedMatrix& b) {
      return a.bytes() == b.bytes() && std::memcmp(a.view().data, b.view().data, a.bytes()) == 0;
    };
    EXPECT_TRUE(same(model.weights().head, (*own)->weights().head));
    for (std::size_t i = 0; i < model.weights().layers.size(); ++i) {
      const LayerWeights& a = model.weights().layers[i];
      const LayerWeights& b = (*own)->weights().layers[i];
      EXPECT_TRUE(same(a.q, b.q) && same(a.k, b.k) && same(a.v, b.v) && same(a.o, b.o));
      EXPECT_TRUE(same(a.gate, b.gate) && same(a.up, b.up) && same(a.down, b.down));
      EXPECT_EQ(a.attention_norm, b.attention_norm);
    }
  }

  testing::TempDir folder_;
  const std::string model_ = folder_.File("model.gguf");
  WeightCache::Options options_ = CacheAt(folder_.File("cache"));
};

TEST_F(WeightSharingTest, TheSecondLoadFindsWhatTheFirstPacked) {
  const auto first = Load();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE((*first)->weights_home().shared) << (*first)->weights_home().why_not;
  EXPECT_TRUE((*first)->weights_home().packed);
  const auto second = Load();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE((*second)->weights_home().shared);
  EXPECT_FALSE((*second)->weights_home().packed);
  EXPECT_EQ((*second)->weights_home().damage, "");
  ExpectRight(**first);
  ExpectRight(**second);
  EXPECT_EQ(Files(".weights").size(), 1u);
  EXPECT_EQ(Files(".content").size(), 1u);
  EXPECT_FALSE(fs::exists(options_.folder + "/part"));
}

TEST_F(WeightSharingTest, TwoProcessesHoldOneCopy) {
  const auto here = Load();
  ASSERT_TRUE(here.ok()) << here.status();
  const std::string file = (*here)->weights_home().file;
  const Child child([&] {
    const auto there = Load(1);
    if (!there.ok() || !(*there)->weights_home().shared) return 2;
    const Mapped mapped = MappingOf(file);
    if (mapped.inode != InodeOf(file)) return 3;
    if (mapped.resident_kb * 1024 < (*there)->packed_bytes().value()) return 4;
    // Of a page that two have, each is charged half.
    return mapped.proportional_kb <= mapped.resident_kb * 6 / 10 ? 0 : 5;
  });
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(MappingOf(file).inode, InodeOf(file));
}

TEST_F(WeightSharingTest, OfProcessesThatBeginTogetherOnePacks) {
  constexpr int kPacked = 10;
  constexpr int kFound = 11;
  const auto load = [&] {
    const auto model = Load(1);
    if (!model.ok() || !(*model)->weights_home().shared) return 1;
    return (*model)->weights_home().packed ? kPacked : kFound;
  };
  const Child children[] = {Child(load), Child(load), Child(load), Child(load)};
  int packed = 0;
  int found = 0;
  for (const Child& child : children) {
    const int status = child.Wait();
    ASSERT_TRUE(WIFEXITED(status));
    packed += WEXITSTATUS(status) == kPacked ? 1 : 0;
    found += WEXITSTATUS(status) == kFound ? 1 : 0;
  }
  EXPECT_EQ(packed, 1);
  EXPECT_EQ(found, 3);
  EXPECT_EQ(Files(".weights").size(), 1u);
}

// The kernel ends the writer at a byte of its choosing, as SIGKILL would.
TEST_F(WeightSharingTest, AWriterThatIsKilledLeavesNothingThatIsUsed) {
  const auto whole = Load();
  ASSERT_TRUE(whole.ok());
  const auto size = static_cast<std::int64_t>(fs::file_size((*whole)->weights_home().file));
  ASSERT_GT(size, 4 * kWindow);
  for (std::int64_t limit : {std::int64_t{0}, std::int64_t{40}, std::int64_t{100}, kWindow,
                             kWindow + 1, 3 * kWindow - 5, size - kWindow, size - 1}) {
    options_.folder = folder_.File(fmt::format("killed-{}", limit));
    const Child child([&] {
      const struct rlimit most = {static_cast<rlim_t>(limit), static_cast<rlim_t>(limit)};
      if (::setrlimit(RLIMIT_FSIZE, &most) != 0) return 2;
      return Load(1).ok() ? 0 : 1;
    });
    const int status = child.Wait();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) << limit << " " << status;
    EXPECT_TRUE(fs::exists(options_.folder + "/part")) << limit;
    EXPECT_TRUE(Files(".weights").empty()) << limit;
    const auto next = Load();
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_TRUE((*next)->weights_home().shared && (*next)->weights_home().packed) << limit;
    EXPECT_FALSE(fs::exists(options_.folder + "/part")) << limit;
    ExpectRight(**next);
  }
}

// The states between one step of publishing and the next.
TEST_F(WeightSharingTest, AWriterThatIsKilledBetweenItsStepsIsMadeGood) {
  ASSERT_TRUE(Load().ok());
  const fs::path file = Files(".weights")[0];
  fs::rename(file, options_.folder + "/part");  // whole, but without its name
  auto next = Load();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE((*next)->weights_home().shared && (*next)->weights_home().packed);
  fs::remove(Files(".content")[0]);  // named, but the content not remembered
  next = Load();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE((*next)->weights_home().shared);
  EXPECT_FALSE((*next)->weights_home().packed);
  EXPECT_EQ(Files(".content").size(), 1u);
  ExpectRight(**next);
}

TEST_F(WeightSharingTest, ADamagedFileIsReplacedAndNamed) {
  ASSERT_TRUE(Load().ok());
  const std::string file = Files(".weights")[0];
  const auto whole = static_cast<std::int64_t>(fs::file_size(file));
  for (std::int64_t length : {std::int64_t{0}, kWindow + 100, whole - 1}) {
    const auto running = Load();  // its mapping is of the file that is replaced
    fs::copy_file(file, folder_.File("copy"), fs::copy_options::overwrite_existing);
    fs::resize_file(folder_.File("copy"), static_cast<std::uintmax_t>(length));
    fs::permissions(folder_.File("copy"), fs::perms::owner_read | fs::perms::owner_write);
    fs::rename(folder_.File("copy"), file);
    const auto next = Load();
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_TRUE((*next)->weights_home().shared && (*next)->weights_home().packed) << length;
    EXPECT_THAT((*next)->weights_home().damage, HasSubstr(file));
    ExpectRight(**next);
    ExpectRight(**running);
  }
}

TEST_F(WeightSharingTest, ADamagedMemoryOfTheContentIsNotBelieved) {
  ASSERT_TRUE(Load().ok());
  const std::string file = Files(".content")[0];
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  for (std::size_t at = 0; at < text.str().size(); at += 3) {
    std::string changed = text.str();
    changed[at] = changed[at] == 'a' ? 'b' : 'a';
    std::ofstream(file) << changed;
    const auto model = Load();
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_FALSE((*model)->weights_home().packed) << at;
    if (at == 0) ExpectRight(**model);
  }
}

TEST_F(WeightSharingTest, AReplacedModelNeverMeetsTheOldWeights) {
  const auto before = Load();
  ASSERT_TRUE(before.ok());
  // The same path, the same size, the same time of the last write, and even the same inode.
  struct stat old {};
  ASSERT_EQ(::stat(model_.c_str(), &old), 0);
  const std::string other = folder_.File("other.gguf");
  SomeWindows(2).WriteGguf(other);
  std::stringstream bytes;
  bytes << std::ifstream(other, std::ios::binary).rdbuf();
  ASSERT_EQ(static_cast<std::int64_t>(bytes.str().size()), old.st_size);
  const ScopedFd fd(::open(model_.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(::pwrite(fd.get(), bytes.str().data(), bytes.str().size(), 0), old.st_size);
  const struct timespec times[] = {old.st_atim, old.st_mtim};
  ASSERT_EQ(::futimens(fd.get(), times), 0);
  const auto after = Load();
  ASSERT_TRUE(after.ok());
  EXPECT_NE((*after)->InstanceHash({}), (*before)->InstanceHash({}));
  EXPECT_TRUE((*after)->weights_home().packed);
  ExpectRight(**after);
}

TEST_F(WeightSharingTest, WhatMayStillBeChangingIsReadAgain) {
  options_.settled_after = std::chrono::hours(1);
  ASSERT_TRUE(Load().ok());
  EXPECT_TRUE(Files(".content").empty());
  const auto second = Load();  // finds the same content by reading it
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE((*second)->weights_home().shared);
  EXPECT_FALSE((*second)->weights_home().packed);
  EXPECT_TRUE(Files(".content").empty());
}

TEST_F(WeightSharingTest, CopiesOfOneModelShareOneFile) {
  ASSERT_TRUE(Load().ok());
  fs::copy_file(model_, folder_.File("copy.gguf"));
  const auto copy = LoadScalar(folder_.File("copy.gguf"), options_);
  ASSERT_TRUE(copy.ok());
  EXPECT_FALSE((*copy)->weights_home().packed);
  EXPECT_EQ(Files(".weights").size(), 1u);
  EXPECT_EQ(Files(".content").size(), 2u);
}

TEST_F(WeightSharingTest, AHolderOfTheLockThatStandsStillIsNotWaitedFor) {
  const auto lock = WeightCache(options_).Acquire();
  ASSERT_TRUE(lock.ok()) << lock.status();
  options_.patience = Duration(0);
  const auto model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE((*model)->weights_home().shared);
  EXPECT_THAT((*model)->weights_home().why_not, HasSubstr("another process holds it"));
  ExpectRight(**model);
}

TEST_F(WeightSharingTest, WithoutAFolderTheWeightsArePrivateAndItIsSaidWhy) {
  options_.folder = model_ + "/cache";
  auto model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE((*model)->weights_home().shared);
  EXPECT_THAT((*model)->weights_home().why_not, HasSubstr("cannot be made"));
  ExpectRight(**model);
  options_.folder = folder_.File("open");
  fs::create_directory(options_.folder);
  fs::permissions(options_.folder, fs::perms::all);
  model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->weights_home().why_not, HasSubstr("mode 777"));
  EXPECT_TRUE(Files(".weights").empty());
  options_.folder = "relative";
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(WeightSharingTest, AFolderThatOnlyRootMayWriteIsStillRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_TRUE(Load().ok());
  for (const std::string& path : {folder_.path(), options_.folder}) ::chmod(path.c_str(), 0755);
  ::chmod(model_.c_str(), 0644);
  for (const auto& file : Files(".weights")) ::chmod(file.c_str(), 0644);
  for (const auto& file : Files(".content")) ::chmod(file.c_str(), 0644);
  const auto as_nobody = [&](const std::string& folder) {
    return Child([&, folder] {
             if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 2;
             options_.folder = folder;
             const auto model = Load(1);
             if (!model.ok()) return 3;
             return (*model)->weights_home().shared ? 10 : 11;
           })
        .Wait();
  };
  EXPECT_EQ(WEXITSTATUS(as_nobody(options_.folder)), 10);
  EXPECT_EQ(WEXITSTATUS(as_nobody(folder_.File("empty"))), 11);
}

TEST_F(WeightSharingTest, SmallModelsStayPrivate) {
  options_.min_bytes = ByteCount(std::int64_t{1} << 30);
  const auto model = Load();
  ASSERT_TRUE(model.ok());
  EXPECT_FALSE((*model)->weights_home().shared);
  EXPECT_THAT((*model)->weights_home().why_not, HasSubstr("too few"));
  EXPECT_FALSE(fs::exists(options_.folder));
}

// Sets when a file was last used: `before` ago.
bool SetUsed(const fs::path& file, Duration before) {
  const std::int64_t seconds = ::time(nullptr) - before / std::chrono::seconds(1);
  const struct timespec times[] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
  return ::utimensat(AT_FDCWD, file.c_str(), times, 0) == 0;
}

TEST_F(WeightSharingTest, WhatWasNotUsedForLongestMakesRoom) {
  const auto first = Load();
  ASSERT_TRUE(first.ok());
  const fs::path first_file = (*first)->weights_home().file;
  // Room for two and a half.
  const auto bytes = static_cast<std::int64_t>(fs::file_size(first_file));
  options_.max_bytes = ByteCount(bytes * 5 / 2);
  Write(2);
  const auto second = Load();
  ASSERT_TRUE(second.ok());
  const fs::path second_file = (*second)->weights_home().file;
  ASSERT_TRUE(SetUsed(first_file, std::chrono::hours(1)));
  ASSERT_TRUE(SetUsed(second_file, std::chrono::hours(2)));
  Write(3);
  const auto third = Load();
  ASSERT_TRUE(third.ok());
  EXPECT_TRUE((*third)->weights_home().shared) << (*third)->weights_home().why_not;
  EXPECT_TRUE(fs::exists(first_file));
  EXPECT_FALSE(fs::exists(second_file));
  EXPECT_EQ(Files(".weights").size(), 2u);
  options_.max_bytes = ByteCount(bytes / 2);
  Write(4);
  const auto fourth = Load();
  ASSERT_TRUE(fourth.ok());
  EXPECT_THAT((*fourth)->weights_home().why_not, HasSubstr("are needed"));
  EXPECT_EQ(Files(".weights").size(), 2u);  // none was sacrificed in vain
}

TEST_F(WeightSharingTest, WhatNobodyUsesGoesWhenAnotherComes) {
  const auto first = Load();
  ASSERT_TRUE(first.ok());
  const fs::path first_file = (*first)->weights_home().file;
  const fs::path stale = fs::path(options_.folder) / "content-layout.weights";
  std::ofstream(stale) << "packed as no program packs any more";
  ASSERT_TRUE(SetUsed(stale, options_.kept_unused + std::chrono::hours(1)));
  ASSERT_TRUE(SetUsed(first_file, options_.kept_unused - std::chrono::hours(1)));
  Write(2);
  ASSERT_TRUE(Load().ok());
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(first_file));
  EXPECT_EQ(Files(".weights").size(), 2u);
}

TEST_F(WeightSharingTest, ItLeavesTheDiskTheRoomItMust) {
  options_.free_percent = 100;
  const auto model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE((*model)->weights_home().shared);
  EXPECT_THAT((*model)->weights_home().why_not, HasSubstr("must stay so"));
  EXPECT_TRUE(Files(".weights").empty());
  options_.free_percent = 101;
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(WeightSharingTest, EachClassHasItsOwnFile) {
  for (const char* numerics : {"scalar-f32", "auto"}) {
    ASSERT_TRUE(
        Model::Load(
            model_,
            {.numerics = numerics, .threads = 2, .progress = nullptr, .weight_cache = options_})
            .ok());
  }
  EXPECT_EQ(Files(".weights").size(), 2u);
  EXPECT_EQ(Files(".content").size(), 1u);
}

}  // namespace
}  // namespace tandem::model
