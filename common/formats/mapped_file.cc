#include "common/formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tandem::formats {

StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // Non-blocking: opening a FIFO must fail below, not wait for a writer.
  ScopedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return NotFound("{}: no such file; check the path", path);
    }
    return FailedPrecondition("{}: cannot be read: {}; check its permissions", path,
                              std::strerror(errno));
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    return FailedPrecondition("{}: cannot be read: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument("{}: is {}, not a file; name the file itself", path,
                           S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
  }
  auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return MappedFile(path, std::move(fd), nullptr, 0);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) {
    return ResourceExhausted("{}: {} bytes cannot be mapped: {}; raise the address space limit",
                             path, size, std::strerror(errno));
  }
  return MappedFile(path, std::move(fd), static_cast<const std::byte*>(data), size);
}

StatusOr<FileStamp> MappedFile::Stamp() const {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) {
    return FailedPrecondition("{}: cannot be looked at: {}", path_, std::strerror(errno));
  }
  const auto nanoseconds = [](const struct timespec& t) {
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  };
  return FileStamp{.device = info.st_dev,
                   .inode = info.st_ino,
                   .bytes = info.st_size,
                   .modified_ns = nanoseconds(info.st_mtim),
                   .changed_ns = nanoseconds(info.st_ctim)};
}

MappedFile::MappedFile(std::string path, ScopedFd file, const std::byte* data, std::size_t size)
    : path_(std::move(path)), file_(std::move(file)), data_(data), size_(size) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    Unmap();
    path_ = std::move(other.path_);
    file_ = std::move(other.file_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

MappedFile::~MappedFile() { Unmap(); }

void MappedFile::Unmap() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace tandem::formats
