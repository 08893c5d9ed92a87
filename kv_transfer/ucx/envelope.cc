#include "kv_transfer/ucx/envelope.h"

#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstring>

#include "common/base/random.h"

namespace tandem::transfer::ucx {
namespace {

constexpr std::uint64_t kMagic = 0x3130'7865'6d64'6e74;  // "tndmex01"
constexpr std::size_t kMaxPayload = 64 << 10;

struct Header {
  std::uint64_t magic = kMagic;
  std::uint64_t ucx_version = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t base = 0;
  std::uint64_t length = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t digest = 0;  // of the header with this field 0, and the payload
};

std::uint64_t UcxVersion() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return std::uint64_t{major} << 32 | minor;
}

std::uint64_t Digest(Header header, std::string_view payload) {
  header.digest = 0;
  std::uint64_t digest = 0;
  const auto mix = [&digest](const char* bytes, std::size_t size) {
    for (std::size_t i = 0; i < size; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + i, std::min<std::size_t>(8, size - i));
      digest = Mix64(digest ^ word);
    }
  };
  mix(reinterpret_cast<const char*>(&header), sizeof header);
  mix(payload.data(), payload.size());
  return digest;
}

}  // namespace

std::string Envelope::Seal() const {
  Header header;
  header.ucx_version = UcxVersion();
  header.incarnation = incarnation;
  header.base = base;
  header.length = length;
  header.payload_bytes = payload.size();
  header.digest = Digest(header, payload);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes + payload;
}

StatusOr<Envelope> Envelope::Open(std::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof header || bytes.size() > sizeof header + kMaxPayload) {
    return InvalidArgument("an address or key of {} bytes is not one", bytes.size());
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::string_view payload = bytes.substr(sizeof header);
  if (header.magic != kMagic || header.payload_bytes != payload.size() || payload.empty() ||
      header.digest != Digest(header, payload)) {
    return InvalidArgument("an address or key of {} bytes was altered or is not one", bytes.size());
  }
  if (header.ucx_version != UcxVersion()) {
    return FailedPrecondition("the sink runs UCX {}.{}, this source {}.{}: use one version",
                              header.ucx_version >> 32, header.ucx_version & 0xffffffff,
                              UcxVersion() >> 32, UcxVersion() & 0xffffffff);
  }
  return Envelope{header.incarnation, header.base, header.length, std::string(payload)};
}

StatusOr<Envelope> OpenKey(const RegionDescriptor& region, std::uint64_t incarnation) {
  TANDEM_ASSIGN_OR_RETURN(Envelope key, Envelope::Open(region.key));
  if (key.incarnation != incarnation ||
      key.length != static_cast<std::uint64_t>(region.length.value())) {
    return FailedPrecondition("the key of region {} is of another incarnation or length",
                              region.id);
  }
  return key;
}

}  // namespace tandem::transfer::ucx
