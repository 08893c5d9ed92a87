// A whole file, mapped read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/scoped_fd.h"
#include "common/base/status.h"

namespace tandem::formats {

// Which file it is and when it was last changed, as its file system tells. Whoever changes bytes of
// a file cannot keep the time of its last change, other than by setting the clock back.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970; may be set at will, so alone it proves little
  std::int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

// Owns one private, read-only mapping; views into it stay valid when the object is moved, until it
// is destroyed. An empty file gives an empty span. The file must not be shortened meanwhile:
// reading a lost page is SIGBUS (replace model files by rename). Thread-safe: immutable after Open.
class MappedFile {
 public:
  // Errors: NotFound; FailedPrecondition when it may not be read; InvalidArgument for a folder or
  // anything else that is not a regular file; ResourceExhausted when it cannot be mapped.
  static StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // Of the mapped file itself, whatever its path now names. Errors: FailedPrecondition.
  StatusOr<FileStamp> Stamp() const;

 private:
  MappedFile(std::string path, ScopedFd file, const std::byte* data, std::size_t size);
  void Unmap();

  std::string path_;
  ScopedFd file_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tandem::formats
