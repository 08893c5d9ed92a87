// A folder of packed weights that a user's processes on one host share.
//
//   CONTENT-LAYOUT.weights   one packed model (weight_file.h)
//   IDENTITY.content         the content hash that model files with these stamps had
//   lock                     held (flock) by the process that reads or packs for the others; the
//                            system lets go of it when a process ends, however it ends
//   part                     what the holder of the lock has written so far
//
// A file gets its name when it is whole, by rename; so a process that dies leaves `part` behind at
// most, and the next holder begins it anew.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/hash128.h"
#include "common/base/scoped_fd.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/base/units.h"
#include "common/formats/mapped_file.h"

namespace tandem::model {

// Not thread-safe.
class WeightCache {
 public:
  struct Options {
    std::string folder;  // absolute; made when it is not there
    // Of all .weights files together. A new one pushes out those that were not used for longest.
    ByteCount max_bytes{std::int64_t{32} << 30};
    // Of the disk, which stays free.
    int free_percent = 5;
    // Files that were not used for this long go when another comes: those of layouts that no
    // program packs any more, of models that nobody serves.
    Duration kept_unused = std::chrono::hours(24 * 7);
    // Packed weights below this are not shared: packing them takes no time.
    ByteCount min_bytes{std::int64_t{16} << 20};
    // A holder of the lock that gets no further for this long is not waited for.
    Duration patience = std::chrono::seconds(30);
    // Files that changed within this time may change again under the same stamp, so their content
    // is not remembered: the coarsest clock of a file system in use.
    Duration settled_after = std::chrono::seconds(2);
    Status Validate() const;
  };

  // Held until destroyed.
  class Lock {
   public:
    // Tells the waiting that there is progress.
    void Touch() const;
    bool waited() const { return waited_; }

   private:
    friend class WeightCache;
    Lock(ScopedFd file, bool waited) : file_(std::move(file)), waited_(waited) {}
    ScopedFd file_;
    bool waited_;  // for another holder
  };

  // Requires: options are valid. Touches nothing yet.
  explicit WeightCache(Options options) : options_(std::move(options)) {}

  const Options& options() const { return options_; }
  std::string PathOf(std::string_view file_name) const;
  std::string part_path() const { return PathOf("part"); }

  // Waits for another holder. Errors: FailedPrecondition when the folder cannot be made or written,
  // or is another user's; DeadlineExceeded when the holder makes no progress.
  StatusOr<Lock> Acquire() const;

  // The content that a model's files had when Remember was last called for it.
  std::optional<Hash128> Remembered(const Hash128& identity) const;
  // Failing is no error: the files are read again next time. Requires: the lock.
  void Remember(const Lock& lock, const Hash128& identity, const Hash128& content) const;

  // Removes files that were not used for kept_unused, and the longest unused ones until `bytes`
  // more fit under max_bytes and onto the disk. Errors: ResourceExhausted when they do not fit even
  // so. Requires: the lock.
  Status MakeRoom(const Lock& lock, ByteCount bytes) const;
  // Gives the finished part its name. Errors: FailedPrecondition. Requires: the lock.
  Status Publish(const Lock& lock, std::string_view file_name) const;

 private:
  Status CheckFolder() const;

  Options options_;
};

// Names files by their stamps. Nothing when one changed less than `settled_after` before `now_ns`
// (since 1970), or when there is none.
std::optional<Hash128> IdentityOf(const std::vector<formats::FileStamp>& stamps,
                                  const Hash128& config_hash, std::int64_t now_ns,
                                  Duration settled_after);

}  // namespace tandem::model
