#include "common/worker/core_group.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

namespace tandem::worker {
namespace {

constexpr std::size_t kFileBytes = 4096;

// A lock of this open file, not of the process: two members may be in one process.
struct flock ByteRange(short type, std::size_t first, std::size_t count) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(first);
  lock.l_len = static_cast<off_t>(count);
  return lock;
}

bool TryLock(int file, std::size_t first, std::size_t count) {
  struct flock lock = ByteRange(F_WRLCK, first, count);
  return ::fcntl(file, F_OFD_SETLK, &lock) == 0;
}

std::string PathOf(const std::string& name) {
  const char* folder = ::access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
  return fmt::format("{}/tandem-{}-cores-{}.v1", folder, ::geteuid(), name);
}

StatusOr<ScopedFd> OpenFile(const std::string& path) {
  ScopedFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat info {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) {
    return Unavailable("cannot open {}: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) {
    return FailedPrecondition("{} is not a file of this user: remove it", path);
  }
  if (::ftruncate(file.get(), kFileBytes) != 0) {
    return Unavailable("cannot write {}: {}", path, std::strerror(errno));
  }
  return file;
}

// False: the last member removed it after it was opened here.
bool HasName(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 && info.st_nlink > 0;
}

std::optional<std::size_t> ClaimSlot(int file) {
  for (std::size_t i = 0; i < CoreGroup::kSlots; ++i) {
    if (TryLock(file, i, 1)) return i;
  }
  return std::nullopt;
}

// What an earlier life left there.
void ClearSlot(CoreGroup::Page& page, std::size_t i) {
  CoreGroup::Slot& slot = page.slots[i];
  slot.waiting = 0;
  slot.role = 0;
  slot.slice_ns = slot.expected_ns = slot.pulse_ns = 0;
  slot.last_turn = slot.ticket = 0;
  std::uint64_t turn = page.turn.load();
  if ((turn & 0xff) == i + 1) page.turn.compare_exchange_strong(turn, (turn >> 8) << 8);
}

}  // namespace

Status CoreGroup::CheckName(const std::string& name) {
  const bool good = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (!name.empty() && name.size() <= 64 && good) return OkStatus();
  return InvalidArgument("'{}' is no name of a core group: 1 to 64 of A-Z a-z 0-9 - _ .", name);
}

StatusOr<std::unique_ptr<CoreGroup>> CoreGroup::Join(const std::string& name) {
  TANDEM_RETURN_IF_ERROR(CheckName(name));
  const std::string path = PathOf(name);
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    TANDEM_ASSIGN_OR_RETURN(ScopedFd file, OpenFile(path));
    const std::optional<std::size_t> own = ClaimSlot(file.get());
    if (!own.has_value()) {  // full, or its last member is just removing it
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    if (!HasName(file.get())) continue;
    void* memory = ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return Unavailable("cannot map {}: {}", path, std::strerror(errno));
    Page* page = static_cast<Page*>(memory);
    ClearSlot(*page, *own);
    return std::unique_ptr<CoreGroup>(new CoreGroup(path, std::move(file), *own, page));
  }
  return ResourceExhausted("the core group '{}' has {} members already; its file is {}", name,
                           kSlots, path);
}

CoreGroup::~CoreGroup() {
  ClearSlot(*page_, own_);
  // All slots are free or our own: nobody else is here, and nobody comes before the name is gone.
  if (TryLock(file_.get(), 0, kSlots) && HasName(file_.get())) ::unlink(path_.c_str());
  ::munmap(page_, kFileBytes);
}

bool CoreGroup::Alive(std::size_t i) const {
  if (i == own_) return true;
  struct flock lock = ByteRange(F_WRLCK, i, 1);
  if (::fcntl(file_.get(), F_OFD_GETLK, &lock) != 0) return true;  // not known: time will tell
  return lock.l_type != F_UNLCK;
}

}  // namespace tandem::worker
