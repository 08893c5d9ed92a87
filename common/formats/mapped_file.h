// A whole file, mapped read-only.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/base/status.h"

namespace tandem::formats {

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

 private:
  MappedFile(std::string path, const std::byte* data, std::size_t size);
  void Unmap();

  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tandem::formats
