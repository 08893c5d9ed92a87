// A second process of this test program that plays one end of a transfer: it runs the program again
// with a flag, so that it shares no UCX state with its parent.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kv_transfer/transfer.h"
#include "tests/integration/transfer/pipe.h"

namespace tandem::transfer {

inline constexpr RegionId kPeerRegion{1};
inline constexpr std::uint64_t kPeerBytes = 32 << 20;

// What a peer does with one message, in words:
//   sink TRANSPORT INCARNATION [SHM_DIRECTORY] → descriptor
//   expect N → ok   forget N → ok, once Forgotten
//   sum → the sum of the region's bytes       clear → ok      stats → "RECEIVED DROPPED"
//   fds → open descriptors
//   source TRANSPORT DESCRIPTOR → ready or the failure        flood N → ok: puts for ever
//   abort N → drained or failed
class Peer {
 public:
  Peer();
  ~Peer();  // kills it
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  std::string Ask(std::string_view text) { return pipe_.Ask(text); }
  // Shared memory lies in `shm_directory`, a tmpfs; in /dev/shm when it is empty.
  SinkDescriptor StartSink(Transport transport, std::uint64_t incarnation,
                           std::string_view shm_directory = {});
  int pid() const { return pid_; }
  void Signal(int signal);
  void Kill();  // SIGKILL; returns when it is gone and reaped

 private:
  explicit Peer(std::pair<Pipe, Pipe> pipes);
  Pipe pipe_;
  int pid_ = -1;
};

inline Ticket PeerTicket(std::uint64_t number) { return {77, number, 1}; }
// The sum of `bytes` as the peer counts it.
std::uint64_t ByteSum(std::span<const std::byte> bytes);

// Serves `fd` until its other end closes, when argv says that this process is a peer.
std::optional<int> RunAsPeer(int argc, char** argv);

}  // namespace tandem::transfer
