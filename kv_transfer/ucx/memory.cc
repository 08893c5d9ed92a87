#include "kv_transfer/ucx/memory.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "kv_transfer/host_memory.h"
#include "kv_transfer/ucx/ucx_status.h"

namespace tandem::transfer::ucx {

StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Allocate(Worker& worker, ByteCount bytes) {
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.length = static_cast<std::size_t>(bytes.value());
  params.flags = UCP_MEM_MAP_ALLOCATE;
  ucp_mem_h handle = nullptr;
  TANDEM_RETURN_IF_ERROR(FromUcs(ucp_mem_map(worker.context(), &params, &handle),
                                 fmt::format("cannot allocate {} bytes of shared memory", bytes)));
  std::unique_ptr<SharedMemory> memory(new SharedMemory(worker.context(), handle));
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  TANDEM_RETURN_IF_ERROR(FromUcs(ucp_mem_query(handle, &attributes), "cannot query shared memory"));
  memory->bytes_ = {static_cast<std::byte*>(attributes.address), params.length};
  return memory;
}

SharedMemory::~SharedMemory() { ucp_mem_unmap(context_, memory_); }

StatusOr<std::string> SharedMemory::PackKey() const {
  void* buffer = nullptr;
  std::size_t size = 0;
  TANDEM_RETURN_IF_ERROR(
      FromUcs(ucp_rkey_pack(context_, memory_, &buffer, &size), "cannot pack a memory key"));
  std::string key(static_cast<const char*>(buffer), size);
  ucp_rkey_buffer_release(buffer);
  return key;
}

Status CheckSharedMemoryRoom(const std::string& directory, ByteCount bytes) {
  struct statvfs fs;
  if (::statvfs(directory.c_str(), &fs) != 0) {
    return Unavailable("cannot ask {} for its free space: {}", directory, std::strerror(errno));
  }
  const ByteCount free(static_cast<std::int64_t>(fs.f_bavail * fs.f_frsize));
  constexpr double kMiB = 1 << 20;
  if (bytes > free) {
    return ResourceExhausted(
        "need {:.0f} MiB of shared memory, {} has {:.0f} MiB free: use fewer KV blocks, enlarge it "
        "(docker run --shm-size, in Kubernetes an emptyDir with medium Memory), or use ucx-tcp",
        static_cast<double>(bytes.value()) / kMiB, directory,
        static_cast<double>(free.value()) / kMiB);
  }
  const ByteCount available = AvailableMemory();
  if (bytes > available) {
    return ResourceExhausted(
        "need {:.0f} MiB of memory, {:.0f} MiB are available: use fewer KV "
        "blocks",
        static_cast<double>(bytes.value()) / kMiB, static_cast<double>(available.value()) / kMiB);
  }
  return OkStatus();
}

StatusOr<std::string> OwnDirectory(const std::string& parent) {
  const std::string path = fmt::format("{}/tandem-{}", parent, ::geteuid());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return Unavailable("cannot make {}: {}", path, std::strerror(errno));
  }
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) {
    return Unavailable("cannot stat {}: {}", path, std::strerror(errno));
  }
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) {
    return FailedPrecondition("{} is not a directory of this user: remove it", path);
  }
  std::error_code error;
  const auto minute_ago = std::filesystem::file_time_type::clock::now() - std::chrono::minutes(1);
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const auto written = entry.last_write_time(error);
    if (!error && written < minute_ago) std::filesystem::remove(entry.path(), error);
  }
  return path;
}

StatusOr<std::unique_ptr<RemoteMemory>> RemoteMemory::Map(ucp_ep_h endpoint, const std::string& key,
                                                          std::uint64_t remote_address,
                                                          std::size_t length) {
  ucp_rkey_h handle = nullptr;
  TANDEM_RETURN_IF_ERROR(FromUcs(ucp_ep_rkey_unpack(endpoint, key.data(), &handle),
                                 "cannot unpack the sink's memory key"));
  std::unique_ptr<RemoteMemory> memory(new RemoteMemory(handle));
  void* address = nullptr;
  TANDEM_RETURN_IF_ERROR(FromUcs(ucp_rkey_ptr(handle, remote_address, &address),
                                 "the sink's memory cannot be mapped here"));
  memory->bytes_ = {static_cast<std::byte*>(address), length};
  return memory;
}

RemoteMemory::~RemoteMemory() { ucp_rkey_destroy(key_); }

}  // namespace tandem::transfer::ucx
