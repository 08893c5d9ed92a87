#include "common/formats/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "tests/testing/paths.h"

namespace tandem::formats {
namespace {

using ::testing::HasSubstr;

TEST(MappedFile, ShowsTheBytesAndSurvivesMoves) {
  tandem::testing::TempDir dir;
  tandem::testing::WriteFile(dir.File("a"), "hello");
  auto opened = MappedFile::Open(dir.File("a"));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::byte* before = opened->bytes().data();
  MappedFile file = *std::move(opened);
  ASSERT_EQ(file.bytes().size(), 5u);
  EXPECT_EQ(file.bytes().data(), before);
  EXPECT_EQ(std::memcmp(before, "hello", 5), 0);
  EXPECT_EQ(file.path(), dir.File("a"));

  tandem::testing::WriteFile(dir.File("b"), "other");
  auto other = MappedFile::Open(dir.File("b"));
  ASSERT_TRUE(other.ok());
  file = *std::move(other);
  EXPECT_EQ(std::memcmp(file.bytes().data(), "other", 5), 0);
}

TEST(MappedFile, AnEmptyFileIsAnEmptySpan) {
  tandem::testing::TempDir dir;
  tandem::testing::WriteFile(dir.File("empty"), "");
  auto file = MappedFile::Open(dir.File("empty"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFile, SaysWhyItCannotOpen) {
  tandem::testing::TempDir dir;
  auto missing = MappedFile::Open(dir.File("none"));
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(FromAbsl(missing.status().message()), HasSubstr(dir.File("none")));
  auto folder = MappedFile::Open(dir.path());
  EXPECT_TRUE(absl::IsInvalidArgument(folder.status()));
  EXPECT_THAT(FromAbsl(folder.status().message()), HasSubstr("is a folder"));
  ASSERT_EQ(::mkfifo(dir.File("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(MappedFile::Open(dir.File("pipe")).status()));
}

TEST(MappedFile, SaysWhenItMayNotRead) {
  tandem::testing::TempDir dir;
  tandem::testing::WriteFile(dir.File("secret"), "x");
  ASSERT_EQ(::chmod(dir.File("secret").c_str(), 0), 0);
  constexpr uid_t kNobody = 65534;
  const bool root = ::geteuid() == 0;  // who may read every file
  if (root && ::seteuid(kNobody) != 0) FAIL() << "cannot give up root";
  auto file = MappedFile::Open(dir.File("secret"));
  if (root && ::seteuid(0) != 0) FAIL() << "cannot become root again";
  EXPECT_TRUE(absl::IsFailedPrecondition(file.status())) << file.status();
}

}  // namespace
}  // namespace tandem::formats
