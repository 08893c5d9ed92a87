#include "common/model/weight_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

namespace tandem::model {
namespace {

namespace fs = std::filesystem;

constexpr Duration kLookEvery = std::chrono::milliseconds(5);
constexpr std::size_t kMaxRemembered = 256;
constexpr std::size_t kHexDigits = 32;

// "tandem content 1\n", content, a checksum of identity and content.
constexpr std::string_view kContentTitle = "tandem content 1\n";

struct Entry {
  fs::path path;
  struct timespec used;
  std::int64_t bytes;  // on disk
};

// Files of the folder with that ending, the longest unused first.
std::vector<Entry> EntriesOf(const std::string& folder, std::string_view ending) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    struct stat info {};
    if (it->path().extension() != ending || ::lstat(it->path().c_str(), &info) != 0) continue;
    if (!S_ISREG(info.st_mode)) continue;
    entries.push_back({it->path(), info.st_mtim, std::int64_t{info.st_blocks} * 512});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  return entries;
}

std::string ContentText(const Hash128& identity, const Hash128& content) {
  Sha256 check;
  check.Update(kContentTitle);
  check.Update(std::as_bytes(std::span(identity.bytes)));
  check.Update(std::as_bytes(std::span(content.bytes)));
  return fmt::format("{}{} {}\n", kContentTitle, content.ToHex(), check.Finish128().ToHex());
}

std::optional<Hash128> HashFromHex(std::string_view hex) {
  Hash128 hash;
  if (hex.size() != kHexDigits) return std::nullopt;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const std::size_t digit = std::string_view("0123456789abcdef").find(hex[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    hash.bytes[i / 2] = static_cast<std::uint8_t>(hash.bytes[i / 2] << 4 | digit);
  }
  return hash;
}

// The whole of a small file that is this user's, or root's, and nobody else's to write.
std::optional<std::string> ReadOwnFile(const std::string& path) {
  const ScopedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  if (info.st_uid != ::geteuid() && info.st_uid != 0) return std::nullopt;
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return std::nullopt;
  char text[256];
  const ssize_t got = ::pread(fd.get(), text, sizeof text, 0);
  if (got < 0) return std::nullopt;
  return std::string(text, static_cast<std::size_t>(got));
}

}  // namespace

Status WeightCache::Options::Validate() const {
  if (!fs::path(folder).is_absolute()) {
    return InvalidArgument("the weights cache is '{}', must be an absolute path", folder);
  }
  if (free_percent < 0 || free_percent > 100) {
    return InvalidArgument("the weights cache leaves {} % of the disk free, must be 0 to 100",
                           free_percent);
  }
  return OkStatus();
}

void WeightCache::Lock::Touch() const { ::futimens(file_.get(), nullptr); }

std::string WeightCache::PathOf(std::string_view file_name) const {
  return fmt::format("{}/{}", options_.folder, file_name);
}

Status WeightCache::CheckFolder() const {
  std::error_code error;
  fs::create_directories(fs::path(options_.folder).parent_path(), error);
  if (::mkdir(options_.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return FailedPrecondition("{}: cannot be made: {}", options_.folder, std::strerror(errno));
  }
  struct stat info {};
  if (::stat(options_.folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return FailedPrecondition("{}: is no folder", options_.folder);
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return FailedPrecondition(
        "{}: belongs to user {} with mode {:o}; must be this user's ({}) and no other's to write",
        options_.folder, info.st_uid, info.st_mode & 07777, ::geteuid());
  }
  return OkStatus();
}

StatusOr<WeightCache::Lock> WeightCache::Acquire() const {
  TANDEM_RETURN_IF_ERROR(CheckFolder());
  const std::string path = PathOf("lock");
  ScopedFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return FailedPrecondition("{}: cannot be opened: {}", path, std::strerror(errno));
  }
  struct stat last {};
  Deadline deadline = Deadline::After(SteadyNow(), options_.patience);
  for (bool waited = false;; waited = true) {
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return Lock(std::move(fd), waited);
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return FailedPrecondition("{}: cannot be locked: {}", path, std::strerror(errno));
    }
    struct stat now {};
    ::fstat(fd.get(), &now);
    if (now.st_mtim.tv_sec != last.st_mtim.tv_sec || now.st_mtim.tv_nsec != last.st_mtim.tv_nsec) {
      last = now;
      deadline = Deadline::After(SteadyNow(), options_.patience);
    } else if (deadline.Passed(SteadyNow())) {
      return DeadlineExceeded("{}: another process holds it and got no further for {} s", path,
                              ToSeconds(options_.patience));
    }
    std::this_thread::sleep_for(kLookEvery);
  }
}

std::optional<Hash128> WeightCache::Remembered(const Hash128& identity) const {
  const auto text = ReadOwnFile(PathOf(identity.ToHex() + ".content"));
  if (!text || text->size() < kContentTitle.size() + kHexDigits) return std::nullopt;
  const auto content =
      HashFromHex(std::string_view(*text).substr(kContentTitle.size(), kHexDigits));
  if (!content || *text != ContentText(identity, *content)) return std::nullopt;
  return content;
}

void WeightCache::Remember(const Lock&, const Hash128& identity, const Hash128& content) const {
  const auto known = EntriesOf(options_.folder, ".content");
  for (std::size_t i = 0; i + kMaxRemembered <= known.size(); ++i) {
    ::unlink(known[i].path.c_str());
  }
  const std::string part = part_path();
  ::unlink(part.c_str());
  {
    const ScopedFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const std::string text = ContentText(identity, content);
    if (!fd.valid() ||
        ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      ::unlink(part.c_str());
      return;
    }
  }
  ::rename(part.c_str(), PathOf(identity.ToHex() + ".content").c_str());
}

Status WeightCache::MakeRoom(const Lock&, ByteCount bytes) const {
  ::unlink(part_path().c_str());  // what a dead holder left
  const auto entries = EntriesOf(options_.folder, ".weights");
  std::int64_t held = 0;
  for (const Entry& entry : entries) held += entry.bytes;
  struct statvfs disk {};
  if (::statvfs(options_.folder.c_str(), &disk) != 0) {
    return FailedPrecondition("{}: {}", options_.folder, std::strerror(errno));
  }
  const auto unit = static_cast<std::int64_t>(disk.f_frsize);
  std::int64_t free = static_cast<std::int64_t>(disk.f_bavail) * unit;
  const std::int64_t reserve =
      static_cast<std::int64_t>(disk.f_blocks) / 100 * options_.free_percent * unit;
  if (bytes > options_.max_bytes || free + held - reserve < bytes.value()) {
    return ResourceExhausted(
        "{}: {} bytes are needed; {} are free, of which {} must stay so, {} are this folder's own, "
        "which may take {}",
        options_.folder, bytes, free, reserve, held, options_.max_bytes);
  }
  const auto oldest_kept = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch() - options_.kept_unused);
  for (const Entry& entry : entries) {
    const bool fits =
        held + bytes.value() <= options_.max_bytes.value() && free - reserve >= bytes.value();
    if (fits && entry.used.tv_sec >= oldest_kept.count()) break;
    ::unlink(entry.path.c_str());  // processes that have it mapped keep it
    held -= entry.bytes;
    free += entry.bytes;
  }
  return OkStatus();
}

Status WeightCache::Publish(const Lock&, std::string_view file_name) const {
  const std::string path = PathOf(file_name);
  if (::rename(part_path().c_str(), path.c_str()) == 0) return OkStatus();
  return FailedPrecondition("{}: cannot be given its name: {}", path, std::strerror(errno));
}

std::optional<Hash128> IdentityOf(const std::vector<formats::FileStamp>& stamps,
                                  const Hash128& config_hash, std::int64_t now_ns,
                                  Duration settled_after) {
  if (stamps.empty()) return std::nullopt;
  Sha256 hash;
  hash.Update("tandem model files 1");
  hash.Update(std::as_bytes(std::span(config_hash.bytes)));
  for (const formats::FileStamp& stamp : stamps) {
    const std::int64_t latest = std::max(stamp.modified_ns, stamp.changed_ns);
    if (latest > now_ns - settled_after.count()) return std::nullopt;
    hash.UpdateU64(stamp.device);
    hash.UpdateU64(stamp.inode);
    hash.UpdateU64(static_cast<std::uint64_t>(stamp.bytes));
    hash.UpdateU64(static_cast<std::uint64_t>(stamp.modified_ns));
    hash.UpdateU64(static_cast<std::uint64_t>(stamp.changed_ns));
  }
  return hash.Finish128();
}

}  // namespace tandem::model
