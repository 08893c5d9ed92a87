#include "common/model/weight_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include "common/base/random.h"
#include "common/base/scoped_fd.h"
#include "common/ops/aligned_buffer.h"

namespace tandem::model {
namespace {

constexpr std::int64_t kWindow = WeightPlan::kWindowBytes;
constexpr int kMadviseCollapse = 25;  // MADV_COLLAPSE, from Linux 6.1 on
constexpr std::array<char, 8> kMagic = {'T', 'N', 'D', 'M', 'W', 'G', 'T', '1'};

// Then follow num_windows checksums, then the checksum of all before it. In this machine's order of
// bytes: another machine's does not match.
struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint64_t window_bytes = kWindow;
  std::uint64_t bytes = 0;
  std::uint64_t num_windows = 0;
  Hash128 content;
  Hash128 layout;
};
static_assert(sizeof(Header) == 64);

// For corruption, not for an adversary. Eight chains, each step a bijection of its state: a changed
// word changes its chain, whatever comes after. Requires: whole 64-byte stripes.
std::uint64_t Checksum(std::span<const std::byte> bytes) {
  std::array<std::uint64_t, 8> state;
  for (std::size_t j = 0; j < 8; ++j) state[j] = Mix64(bytes.size() + j);
  for (std::size_t at = 0; at < bytes.size(); at += 64) {
    for (std::size_t j = 0; j < 8; ++j) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data() + at + 8 * j, 8);
      state[j] = std::rotl((state[j] ^ word) * 0x9e37'79b9'7f4a'7c15u, 29);
    }
  }
  std::uint64_t sum = 0;
  for (std::uint64_t chain : state) sum = Mix64(sum ^ chain);
  return sum;
}

std::vector<std::byte> MakeHeader(const WeightFileKey& key,
                                  const std::vector<std::uint64_t>& sums) {
  Header header;
  header.bytes = static_cast<std::uint64_t>(key.bytes);
  header.num_windows = sums.size();
  header.content = key.content;
  header.layout = key.layout;
  const std::size_t body = sizeof header + sums.size() * 8;
  std::vector<std::byte> out((body + 63) / 64 * 64 + 64);  // the sum on a stripe of its own
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + sizeof header, sums.data(), sums.size() * 8);
  const std::span<std::byte> whole(out);
  const std::uint64_t sum = Checksum(whole.first(out.size() - 64));
  std::memcpy(out.data() + out.size() - 64, &sum, 8);
  return out;
}

std::int64_t NumWindows(const WeightFileKey& key) { return (key.bytes + kWindow - 1) / kWindow; }

// Calls work(window, thread_idx) for each window on some thread until one fails; the first failure.
template <typename Work>
Status ForEachWindow(ThreadPool& pool, std::int64_t count, const WeightFile::Progress& progress,
                     Work&& work) {
  std::vector<Status> results(static_cast<std::size_t>(pool.num_threads()));
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> done{0};
  std::atomic<bool> failed{false};
  pool.Run([&](int thread_idx, int) {
    for (std::int64_t window = next++; window < count && !failed; window = next++) {
      Status& result = results[static_cast<std::size_t>(thread_idx)];
      result = work(window, thread_idx);
      if (!result.ok()) failed = true;
      done += kWindow;
      if (thread_idx == 0 && progress) progress(ByteCount(done));
    }
  });
  for (const Status& result : results) TANDEM_RETURN_IF_ERROR(result);
  return OkStatus();
}

Status WriteFailed(const std::string& path, std::int64_t offset, int error) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return ResourceExhausted("{}: no room after {} bytes: {}", path, offset, std::strerror(error));
  }
  return FailedPrecondition("{}: cannot be written: {}", path, std::strerror(error));
}

Status WriteAll(int fd, const std::string& path, std::span<const std::byte> bytes,
                std::int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return WriteFailed(path, offset, written == 0 ? ENOSPC : errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
  return OkStatus();
}

Status WriteWindows(int fd, const std::string& path, const WeightFileKey& key,
                    const WeightPlan& plan, ThreadPool& pool,
                    const WeightFile::Progress& progress) {
  TANDEM_ASSIGN_OR_RETURN(const ops::AlignedBuffer buffer,
                          ops::AlignedBuffer::Allocate(kWindow * pool.num_threads()));
  std::vector<std::vector<std::byte>> spare(static_cast<std::size_t>(pool.num_threads()));
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(NumWindows(key)));
  // One write a window, so that the page cache may hold it as one huge page.
  TANDEM_RETURN_IF_ERROR(ForEachWindow(
      pool, NumWindows(key), progress, [&](std::int64_t window, int thread_idx) -> Status {
        const std::span<std::byte> bytes(buffer.data() + kWindow * thread_idx, kWindow);
        if (window == NumWindows(key) - 1) std::memset(bytes.data(), 0, bytes.size());
        plan.Fill(window, bytes.data(), spare[static_cast<std::size_t>(thread_idx)]);
        sums[static_cast<std::size_t>(window)] = Checksum(bytes);
        return WriteAll(fd, path, bytes, (window + 1) * kWindow);
      }));
  return WriteAll(fd, path, MakeHeader(key, sums), 0);
}

// The file's own bytes say nothing yet; who may have written them does.
Status CheckOwner(int fd, const std::string& path, const WeightFileKey& key) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return FailedPrecondition("{}: cannot be read: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) return FailedPrecondition("{}: is no file", path);
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return FailedPrecondition("{}: belongs to user {}, neither to this one ({}) nor to root", path,
                              info.st_uid, ::geteuid());
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return FailedPrecondition("{}: may be written by others (mode {:o})", path,
                              info.st_mode & 07777);
  }
  if (info.st_size != key.FileBytes()) {
    return InvalidArgument("{}: has {} bytes, must have {}", path, info.st_size, key.FileBytes());
  }
  return OkStatus();
}

StatusOr<std::vector<std::uint64_t>> ReadHeader(int fd, const std::string& path,
                                                const WeightFileKey& key) {
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(NumWindows(key)));
  std::vector<std::byte> bytes(MakeHeader(key, sums).size());
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return InvalidArgument("{}: its header cannot be read", path);
    done += static_cast<std::size_t>(got);
  }
  std::memcpy(sums.data(), bytes.data() + sizeof(Header), sums.size() * 8);
  // The one header that would be right with these sums.
  if (bytes != MakeHeader(key, sums)) {
    return InvalidArgument("{}: its header is damaged, or that of other weights", path);
  }
  return sums;
}

// At a multiple of the size of a huge page, as the file's windows are.
StatusOr<std::byte*> MapAligned(int fd, const std::string& path, std::size_t size) {
  void* room = ::mmap(nullptr, size + kWindow, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    return ResourceExhausted("{}: {} bytes cannot be mapped: {}", path, size, std::strerror(errno));
  }
  auto* begin = static_cast<std::byte*>(room);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(room) % kWindow;
  void* data = ::mmap(begin + before, size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, kWindow);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::munmap(room, size + kWindow);
    return ResourceExhausted("{}: {} bytes cannot be mapped: {}", path, size, std::strerror(error));
  }
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + size, kWindow - before);
  ::madvise(data, size, MADV_HUGEPAGE);  // advice only
  return static_cast<std::byte*>(data);
}

}  // namespace

std::string WeightFileKey::FileName() const {
  return fmt::format("{}-{}.weights", content.ToHex(), layout.ToHex());
}

std::int64_t WeightFileKey::FileBytes() const { return (NumWindows(*this) + 1) * kWindow; }

StatusOr<WeightFile> WeightFile::Open(const std::string& path, const WeightFileKey& key,
                                      ThreadPool& pool, const Progress& progress) {
  const ScopedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return NotFound("{}: no such file", path);
    return FailedPrecondition("{}: cannot be opened: {}", path, std::strerror(errno));
  }
  TANDEM_RETURN_IF_ERROR(CheckOwner(fd.get(), path, key));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> sums, ReadHeader(fd.get(), path, key));
  const auto size = static_cast<std::size_t>(NumWindows(key) * kWindow);
  TANDEM_ASSIGN_OR_RETURN(const std::byte* data, MapAligned(fd.get(), path, size));
  WeightFile file(data, size);
  TANDEM_RETURN_IF_ERROR(
      ForEachWindow(pool, NumWindows(key), progress, [&](std::int64_t window, int) -> Status {
        const std::span<const std::byte> bytes(data + window * kWindow, kWindow);
        if (Checksum(bytes) == sums[static_cast<std::size_t>(window)]) return OkStatus();
        return InvalidArgument("{}: the bytes from {} on are damaged", path,
                               (window + 1) * kWindow);
      }));
  // Makes huge pages of a tmpfs file's pages, if they are not yet. File systems on disks have them
  // from the writes of whole windows, or not at all, and the call fails at once.
  ::madvise(const_cast<std::byte*>(data), size, kMadviseCollapse);
  // When it was last used. It fails where the file is on a read-only file system.
  ::futimens(fd.get(), nullptr);
  return file;
}

StatusOr<WeightFile> WeightFile::Write(const std::string& path, const WeightFileKey& key,
                                       const WeightPlan& plan, ThreadPool& pool,
                                       const Progress& progress) {
  ::unlink(path.c_str());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return FailedPrecondition("{}: cannot be created: {}", path, std::strerror(errno));
  Status status = WriteWindows(fd, path, key, plan, pool, progress);
  // Network file systems tell only here that there was no room.
  if (::close(fd) != 0 && status.ok()) status = WriteFailed(path, key.FileBytes(), errno);
  if (status.ok()) {
    StatusOr<WeightFile> file = MapWritten(path, key, pool);
    if (file.ok()) return file;
    status = file.status();
  }
  ::unlink(path.c_str());
  return status;
}

StatusOr<WeightFile> WeightFile::MapWritten(const std::string& path, const WeightFileKey& key,
                                            ThreadPool& pool) {
  const ScopedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) {
    return FailedPrecondition("{}: cannot be opened: {}", path, std::strerror(errno));
  }
  TANDEM_RETURN_IF_ERROR(CheckOwner(fd.get(), path, key));
  const auto size = static_cast<std::size_t>(NumWindows(key) * kWindow);
  TANDEM_ASSIGN_OR_RETURN(const std::byte* data, MapAligned(fd.get(), path, size));
  WeightFile file(data, size);
  // The pages are in memory; this puts them under the mapping, so that no step has to.
  TANDEM_RETURN_IF_ERROR(
      ForEachWindow(pool, NumWindows(key), nullptr, [&](std::int64_t window, int) -> Status {
        ::madvise(const_cast<std::byte*>(data + window * kWindow), kWindow, MADV_POPULATE_READ);
        return OkStatus();
      }));
  ::madvise(const_cast<std::byte*>(data), size, kMadviseCollapse);
  return file;
}

WeightFile::~WeightFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), mapped_);
}

}  // namespace tandem::model
