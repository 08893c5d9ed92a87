// The connection over a TCP socket. Asio's headers stay in the sources that include this.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/handoff/silence_watch.h"
#include "common/net/endpoint.h"
#include "common/net/strand_impl.h"
#include "common/proto/wire.h"
#include "common/rpc/connection.h"

namespace tandem::rpc {

// Socket, queues and timers live on a strand of the connection's own (io_), so that heartbeats and
// pongs go out while the owner's strand is busy. Handlers are posted to the owner's strand
// (owner_).
class TcpConnection final : public Connection, public std::enable_shared_from_this<TcpConnection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  // `socket` is connected and runs on `io`.
  TcpConnection(net::Strand io, net::Strand owner, Socket socket, const Options& options,
                bool dialed);

  void Start(handoff::Hello own_hello, Handlers handlers) override;
  void Accept() override;
  void Refuse(std::string field, std::string reason) override;
  void Send(const handoff::Message& message) override;
  void Ping(Duration limit, std::function<void(bool)> answered) override;
  void Close(Status reason) override;
  std::string remote_address() const override { return remote_; }

 private:
  // All below on io_ unless noted.
  enum class State { kNew, kHello, kDeciding, kOpen, kClosing, kClosed };

  struct PendingPing {
    std::function<void(bool)> answered;
    std::unique_ptr<boost::asio::steady_timer> timer;
  };

  void Begin();
  void ReadHeader();
  void ReadBody(std::uint32_t size);
  void OnFrame();
  // Handles what the connection itself answers; the rest goes to the owner.
  void OnMessage(handoff::Message message);
  void OnHello(handoff::Hello hello);
  void Deliver(handoff::Message message);
  void RefuseNow(std::string field, std::string reason);
  void Queue(std::string frame);
  void Write();
  void ScheduleHeartbeat();
  void SendHeartbeat();
  void ScheduleSilenceCheck();
  // Takes no further message; what is queued is still written, for a second at most.
  void CloseAfterWriting(Status reason);
  void EndSending();
  // The socket failed or ended.
  void Lost(const std::string& why);
  void Finish(Status reason);

  const net::Strand io_;
  const net::Strand owner_;
  const Options options_;
  const bool dialed_;
  const std::string remote_;
  Socket socket_;
  boost::asio::steady_timer heartbeat_timer_;
  boost::asio::steady_timer silence_timer_;
  boost::asio::steady_timer close_timer_;  // hello timeout, then the closing limit

  State state_ = State::kNew;
  handoff::Hello own_hello_;
  std::array<unsigned char, 4> header_{};
  std::string body_;
  std::deque<std::string> queued_;      // frames with their length
  std::vector<std::string> in_flight_;  // being written
  std::size_t unsent_bytes_ = 0;
  bool reading_paused_ = false;
  bool heartbeat_asked_ = false;
  Time heartbeat_asked_at_{};
  bool peer_drains_ = false;  // its last heartbeat said so: its end will be in order
  handoff::SilenceWatch silence_{options_.silence_limit, SteadyNow()};
  Status close_reason_;
  std::map<std::uint64_t, PendingPing> pings_;
  std::uint64_t next_nonce_ = 1;  // 0: nobody waits for the Pong

  std::atomic<std::size_t> unhandled_{0};  // messages posted to the owner, not yet handled
  std::atomic<bool> has_heartbeat_{false};

  // Touched on owner_ only: set by Start, cleared after on_closed.
  std::shared_ptr<Handlers> handlers_;
};

}  // namespace tandem::rpc
