// One model's packed weights in one file, which all processes of a host map.
//
//   0        magic, version, sizes, what it holds, a checksum of each window, one of all that
//   2 MiB    the bytes of a WeightPlan, whole windows of 2 MiB, the last filled up with zeros
//
// The header is written last, so a file that was not finished has none. Whatever else may have
// happened to a file, each byte is summed up whenever it is opened: nothing need be synced to disk,
// and nothing is trusted but that nobody writes to a mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "common/base/hash128.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/base/units.h"
#include "common/model/weight_plan.h"

namespace tandem::model {

// What a file must hold to be of use.
struct WeightFileKey {
  Hash128 content;
  Hash128 layout;
  std::int64_t bytes = 0;

  std::string FileName() const;  // by content and layout
  std::int64_t FileBytes() const;
};

// Owns a read-only mapping, aligned to huge pages, which the system is asked for. The file may be
// unlinked or replaced meanwhile. Move-only; immutable: any thread may read.
class WeightFile {
 public:
  // Called on the caller's thread.
  using Progress = std::function<void(ByteCount done)>;

  // Reads and verifies the whole. Errors: NotFound when there is none; FailedPrecondition for one
  // that is another user's or that others may write; InvalidArgument for one that is damaged,
  // cut short or holds something else; ResourceExhausted when it cannot be mapped.
  static StatusOr<WeightFile> Open(const std::string& path, const WeightFileKey& key,
                                   ThreadPool& pool, const Progress& progress);

  // Writes a new file, readable by its owner only, and maps it without reading it again; an old one
  // of that name is unlinked first, never written to. Errors: ResourceExhausted for a full disk, or
  // when it cannot be mapped, else FailedPrecondition; the file is unlinked again.
  static StatusOr<WeightFile> Write(const std::string& path, const WeightFileKey& key,
                                    const WeightPlan& plan, ThreadPool& pool,
                                    const Progress& progress);

  WeightFile(WeightFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), mapped_(std::exchange(other.mapped_, 0)) {}
  WeightFile& operator=(WeightFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  ~WeightFile();

  const std::byte* data() const { return data_; }

 private:
  WeightFile(const std::byte* data, std::size_t mapped) : data_(data), mapped_(mapped) {}
  static StatusOr<WeightFile> MapWritten(const std::string& path, const WeightFileKey& key,
                                         ThreadPool& pool);

  const std::byte* data_ = nullptr;
  std::size_t mapped_ = 0;
};

}  // namespace tandem::model
