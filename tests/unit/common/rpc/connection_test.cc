#include "common/rpc/connection.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <deque>
#include <optional>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/scoped_fd.h"
#include "common/proto/wire.h"
#include "common/rpc/listener.h"

namespace tandem::rpc {
namespace {

using ::testing::HasSubstr;

handoff::Hello HelloOf(std::string name) {
  handoff::Hello hello;
  hello.role = handoff::Role::kRouter;
  hello.name = std::move(name);
  hello.incarnation = handoff::Incarnation(7);
  return hello;
}

handoff::PlacementKey KeyOf(std::uint64_t number) {
  return {.request = {.router = handoff::Incarnation(7), .number = number},
          .attempt = handoff::Attempt(1),
          .placement = handoff::Placement(1)};
}

// One end of a connection; remembers what its handlers were told.
class End {
 public:
  enum class OnHello { kAccept, kRefuse, kWait };

  End(std::string name, OnHello on_hello) : hello_(HelloOf(std::move(name))), on_hello_(on_hello) {}

  // On the strand.
  void Start(ConnectionPtr connection) {
    Connection* raw = connection.get();
    {
      MutexLock lock(mutex_);
      connection_ = std::move(connection);
    }
    raw->Start(hello_, {.on_hello = [this](const handoff::Hello& hello) { Hello(hello); },
                        .on_message = [this](handoff::Message m) { Message(std::move(m)); },
                        .on_closed = [this](const Status& status) { Closed(status); },
                        .heartbeat = heartbeat_});
  }

  ConnectionPtr WaitConnection() {
    MutexLock lock(mutex_);
    mutex_.Await([end = this] { return end->connection_ != nullptr; });
    return connection_;
  }
  handoff::Hello WaitHello() {
    MutexLock lock(mutex_);
    mutex_.Await([end = this] { return end->peer_.has_value(); });
    return *peer_;
  }
  // The next message that is no heartbeat.
  handoff::Message WaitMessage() {
    MutexLock lock(mutex_);
    mutex_.Await([end = this] { return !end->messages_.empty(); });
    handoff::Message message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }
  handoff::Heartbeat WaitHeartbeat() {
    MutexLock lock(mutex_);
    mutex_.Await([end = this] { return end->heard_.has_value(); });
    return *std::exchange(heard_, std::nullopt);
  }
  Status WaitClosed() {
    MutexLock lock(mutex_);
    mutex_.Await([end = this] { return end->closed_.has_value(); });
    return *closed_;
  }
  bool closed() {
    MutexLock lock(mutex_);
    return closed_.has_value();
  }

  handoff::Hello hello_;
  std::function<handoff::Heartbeat()> heartbeat_;
  std::function<void()> while_handling_;  // on the strand, in each message

 private:
  void Hello(const handoff::Hello& hello) {
    const ConnectionPtr connection = WaitConnection();
    if (on_hello_ == OnHello::kAccept) connection->Accept();
    if (on_hello_ == OnHello::kRefuse) connection->Refuse("model_instance", "another model");
    MutexLock lock(mutex_);
    peer_ = hello;
  }
  void Message(handoff::Message message) {
    if (while_handling_) while_handling_();
    MutexLock lock(mutex_);
    if (auto* heartbeat = std::get_if<handoff::Heartbeat>(&message)) {
      heard_ = std::move(*heartbeat);
    } else {
      messages_.push_back(std::move(message));
    }
  }
  void Closed(const Status& status) {
    MutexLock lock(mutex_);
    closed_ = status;
  }

  const OnHello on_hello_;
  Mutex mutex_;
  ConnectionPtr connection_;
  std::optional<handoff::Hello> peer_;
  std::deque<handoff::Message> messages_;
  std::optional<handoff::Heartbeat> heard_;
  std::optional<Status> closed_;
};

// A peer that speaks bytes, to say what no proper end would.
class RawPeer {
 public:
  explicit RawPeer(const net::HostPort& to) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(to.port);
    ::inet_pton(AF_INET, to.host.c_str(), &address.sin_addr);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  void Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;  // closed on us
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  void WriteFrame(std::string_view frame) {
    const auto size = static_cast<std::uint32_t>(frame.size());
    std::string out;
    for (int i = 0; i < 4; ++i) out += static_cast<char>(size >> (8 * i));
    Write(out.append(frame));
  }
  // Frames until one of `type`; nothing if the connection ends first.
  std::optional<proto::Frame> ReadUntil(std::string_view type) {
    while (true) {
      unsigned char header[4];
      if (!ReadFull(header, sizeof header)) return std::nullopt;
      std::string body(
          header[0] | header[1] << 8 | header[2] << 16 | std::uint32_t{header[3]} << 24, '\0');
      if (!ReadFull(body.data(), body.size())) return std::nullopt;
      StatusOr<proto::Frame> frame = proto::ParseFrame(body);
      if (frame.ok() && frame->type == type) return *frame;
    }
  }

 private:
  bool ReadFull(void* out, std::size_t size) {
    return size == 0 || ::recv(fd_.get(), out, size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }
  ScopedFd fd_;
};

class ConnectionTest : public ::testing::Test {
 protected:
  ~ConnectionTest() override {
    // Listener and connections belong to the strand: end them there, then the threads.
    strand_.Run([this] { listener_.reset(); });
    io_.Stop();
  }
  void Listen() {
    auto listener = Listener::Open(io_, strand_, {.host = "127.0.0.1", .port = 0}, options_,
                                   [this](ConnectionPtr c) { server_.Start(std::move(c)); });
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    ASSERT_NE(listener_->address().port, 0);
  }
  void Connect() {
    Listen();
    Dial(io_, strand_, listener_->address(), options_, [this](StatusOr<ConnectionPtr> connection) {
      ASSERT_TRUE(connection.ok()) << connection.status();
      client_.Start(*std::move(connection));
    });
  }
  void ConnectOpen() {
    Connect();
    EXPECT_EQ(client_.WaitHello().name, "server");
    EXPECT_EQ(server_.WaitHello().name, "client");
  }

  net::IoThreads io_{2};
  net::Strand strand_{io_};
  Options options_;
  End server_{"server", End::OnHello::kAccept};
  End client_{"client", End::OnHello::kAccept};
  std::unique_ptr<Listener> listener_;
};

TEST_F(ConnectionTest, MessagesArriveInOrderBothWays) {
  ConnectOpen();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    client_.WaitConnection()->Send(handoff::Cancel{.key = KeyOf(i)});
    server_.WaitConnection()->Send(handoff::Joined{.key = KeyOf(i)});
  }
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(std::get<handoff::Cancel>(server_.WaitMessage()).key.request.number, i);
    EXPECT_EQ(std::get<handoff::Joined>(client_.WaitMessage()).key.request.number, i);
  }
}

TEST_F(ConnectionTest, CloseWritesWhatIsQueuedAndTellsBothEnds) {
  ConnectOpen();
  for (std::uint64_t i = 0; i < 100; ++i) {
    client_.WaitConnection()->Send(handoff::Cancel{.key = KeyOf(i)});
  }
  client_.WaitConnection()->Close(Cancelled("stopping"));
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(std::get<handoff::Cancel>(server_.WaitMessage()).key.request.number, i);
  }
  EXPECT_EQ(client_.WaitClosed(), Cancelled("stopping"));
  EXPECT_EQ(server_.WaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ConnectionTest, RefusedHelloNamesTheFieldAtBothEnds) {
  Listen();
  End picky("picky", End::OnHello::kRefuse);
  Dial(io_, strand_, listener_->address(), options_,
       [&](StatusOr<ConnectionPtr> connection) { picky.Start(*std::move(connection)); });
  const Status here = picky.WaitClosed();
  EXPECT_EQ(here.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(here.ToString(), HasSubstr("model_instance: another model"));
  const Status there = server_.WaitClosed();
  EXPECT_EQ(there.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(there.ToString(), HasSubstr("model_instance: another model"));
}

TEST_F(ConnectionTest, WireVersionsThatDoNotOverlapAreRefused) {
  client_.hello_.wire_lowest = 2;
  client_.hello_.wire_highest = 3;
  Connect();
  EXPECT_THAT(client_.WaitClosed().ToString(),
              HasSubstr("refused wire: versions 2..3 there, 1..1"));
  EXPECT_THAT(server_.WaitClosed().ToString(), HasSubstr("wire"));
}

TEST_F(ConnectionTest, HelloThatIsNeverAnsweredEndsTheConnection) {
  options_.hello_timeout = std::chrono::milliseconds(50);
  Listen();
  End undecided("undecided", End::OnHello::kWait);
  Dial(io_, strand_, listener_->address(), options_,
       [&](StatusOr<ConnectionPtr> connection) { undecided.Start(*std::move(connection)); });
  EXPECT_THAT(undecided.WaitClosed().ToString(), HasSubstr("no hello within 50"));
  EXPECT_FALSE(server_.WaitClosed().ok());
}

TEST_F(ConnectionTest, HeartbeatsCarryTheOwnersNumbers) {
  options_.heartbeat_every = std::chrono::milliseconds(5);
  server_.heartbeat_ = [] {
    handoff::Heartbeat heartbeat;
    heartbeat.free_blocks = kv::BlockCount(42);
    return heartbeat;
  };
  ConnectOpen();
  EXPECT_EQ(client_.WaitHeartbeat().free_blocks, kv::BlockCount(42));
  server_.WaitHeartbeat();
}

TEST_F(ConnectionTest, BusyOwnerIsNotSilence) {
  options_.heartbeat_every = std::chrono::milliseconds(5);
  options_.silence_limit = options_.owner_limit = std::chrono::hours(1);
  server_.heartbeat_ = [] { return handoff::Heartbeat{}; };
  Listen();
  RawPeer peer(listener_->address());
  peer.WriteFrame(proto::Encode(HelloOf("peer")));
  ASSERT_TRUE(peer.ReadUntil("Heartbeat"));
  Notification release;
  strand_.Post([&] { release.WaitForNotification(); });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(peer.ReadUntil("Ping")) << "a sign of life";
  release.Notify();
  EXPECT_TRUE(peer.ReadUntil("Heartbeat")) << "its numbers come later";
}

TEST_F(ConnectionTest, NobodyVouchesForAnOwnerThatIsStuck) {
  options_.heartbeat_every = std::chrono::milliseconds(5);
  options_.silence_limit = std::chrono::milliseconds(100);
  options_.owner_limit = std::chrono::milliseconds(100);
  net::Strand stuck(io_);
  Listen();
  End client("client", End::OnHello::kAccept);
  client.heartbeat_ = [] { return handoff::Heartbeat{}; };
  Dial(io_, stuck, listener_->address(), options_,
       [&](StatusOr<ConnectionPtr> connection) { client.Start(*std::move(connection)); });
  client.WaitHello();
  server_.WaitHeartbeat();
  Notification release;
  stuck.Post([&] { release.WaitForNotification(); });
  EXPECT_EQ(server_.WaitClosed().code(), absl::StatusCode::kDeadlineExceeded);
  release.Notify();
  EXPECT_FALSE(client.WaitClosed().ok());
}

TEST_F(ConnectionTest, TheEndOfAPeerThatDrainedIsInOrder) {
  ConnectOpen();
  server_.WaitConnection()->Send(handoff::Heartbeat{.draining = true});
  server_.WaitConnection()->Close(Cancelled("stopping"));
  EXPECT_EQ(client_.WaitClosed().code(), absl::StatusCode::kCancelled);
}

TEST_F(ConnectionTest, SilentPeerIsClosed) {
  options_.silence_limit = std::chrono::milliseconds(60);
  Listen();
  RawPeer peer(listener_->address());
  peer.WriteFrame(proto::Encode(HelloOf("mute")));
  const Status status = server_.WaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.ToString(), HasSubstr("nothing heard for 60"));
}

TEST_F(ConnectionTest, PingWithoutAnswerIsFalse) {
  Listen();
  RawPeer peer(listener_->address());
  peer.WriteFrame(proto::Encode(HelloOf("mute")));
  server_.WaitHello();
  Notification answered;
  bool ok = true;
  server_.WaitConnection()->Ping(std::chrono::milliseconds(20), [&](bool pong) {
    ok = pong;
    answered.Notify();
  });
  answered.WaitForNotification();
  EXPECT_FALSE(ok);
}

TEST_F(ConnectionTest, UnknownTypeIsRefusedByNameAndNotFatal) {
  Listen();
  RawPeer peer(listener_->address());
  peer.WriteFrame(proto::Encode(HelloOf("newer")));
  ASSERT_TRUE(peer.ReadUntil("Hello"));
  std::string frame = proto::EncodeUnknown("x");  // same shape, another name
  frame.replace(frame.find("Unknown"), 7, "Migrate");
  peer.WriteFrame(frame);
  const std::optional<proto::Frame> answer = peer.ReadUntil("Unknown");
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(*proto::DecodeUnknown(*answer), "Migrate");
  peer.WriteFrame(proto::Encode(handoff::Cancel{.key = KeyOf(5)}));
  EXPECT_EQ(std::get<handoff::Cancel>(server_.WaitMessage()).key.request.number, 5u);
}

TEST_F(ConnectionTest, FrameOverTheLimitEndsTheConnectionUnread) {
  options_.max_frame_bytes = 1 << 20;
  Listen();
  RawPeer peer(listener_->address());
  peer.WriteFrame(proto::Encode(HelloOf("big")));
  ASSERT_TRUE(peer.ReadUntil("Hello"));
  peer.Write(std::string("\x01\x00\x10\x00", 4));  // 2^20 + 1
  const Status status = server_.WaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.ToString(), HasSubstr("1048577"));
}

TEST_F(ConnectionTest, BigFrameBeforeHelloIsRefused) {
  Listen();
  RawPeer peer(listener_->address());
  peer.Write(std::string("\x01\x00\x01\x00", 4));  // 2^16 + 1
  EXPECT_THAT(server_.WaitClosed().ToString(), HasSubstr("65537"));
}

TEST_F(ConnectionTest, MessageBeforeHelloIsRefused) {
  Listen();
  RawPeer peer(listener_->address());
  peer.WriteFrame(proto::Encode(handoff::Cancel{.key = KeyOf(1)}));
  EXPECT_THAT(server_.WaitClosed().ToString(), HasSubstr("Cancel before Hello"));
}

TEST_F(ConnectionTest, RandomBytesOnlyEndTheirConnection) {
  Listen();
  const std::uint64_t seed = 20250117;
  SplitMix64 random(seed);
  for (int i = 0; i < 50; ++i) {
    End end("server", End::OnHello::kAccept);
    strand_.Run([&] {
      listener_.reset();
      listener_ = *Listener::Open(io_, strand_, {.host = "127.0.0.1", .port = 0}, options_,
                                  [&](ConnectionPtr c) { end.Start(std::move(c)); });
    });
    {
      RawPeer peer(listener_->address());
      std::string bytes(random.Below(200), '\0');
      for (char& c : bytes) c = static_cast<char>(random.Next());
      if (random.Below(2) == 0) {
        peer.WriteFrame(bytes);
      } else {
        peer.Write(bytes);
      }
    }
    EXPECT_FALSE(end.WaitClosed().ok()) << "seed " << seed << " round " << i;
  }
}

TEST_F(ConnectionTest, SlowHandlerStopsTheSenderAndLosesNothing) {
  options_.max_unhandled_messages = 4;
  ConnectOpen();
  for (std::uint64_t i = 0; i < 500; ++i) {
    client_.WaitConnection()->Send(handoff::Cancel{.key = KeyOf(i)});
  }
  for (std::uint64_t i = 0; i < 500; ++i) {
    EXPECT_EQ(std::get<handoff::Cancel>(server_.WaitMessage()).key.request.number, i);
  }
}

TEST_F(ConnectionTest, PeerThatDoesNotReadIsDroppedAtTheBound) {
  options_.max_unsent_bytes = 1 << 20;
  Listen();
  RawPeer peer(listener_->address());
  peer.WriteFrame(proto::Encode(HelloOf("deaf")));
  server_.WaitHello();
  handoff::PlacementRefused big{.key = KeyOf(1), .reason = std::string(4000, 'x')};
  while (!server_.closed()) {
    for (int i = 0; i < 100; ++i) server_.WaitConnection()->Send(big);
    strand_.Run([] {});
  }
  const Status status = server_.WaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST_F(ConnectionTest, DialToNobodyIsUnavailableAndNamesTheAddress) {
  Listen();
  const net::HostPort address = listener_->address();
  strand_.Run([this] { listener_.reset(); });
  Notification done;
  Dial(io_, strand_, address, options_, [&](StatusOr<ConnectionPtr> connection) {
    EXPECT_EQ(connection.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(connection.status().ToString(), HasSubstr(address.ToString()));
    done.Notify();
  });
  done.WaitForNotification();
}

TEST_F(ConnectionTest, PortInUseIsUnavailableAndNamesTheAddress) {
  Listen();
  auto second = Listener::Open(io_, strand_, listener_->address(), options_, [](ConnectionPtr) {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(second.status().ToString(), HasSubstr(listener_->address().ToString()));
}

}  // namespace
}  // namespace tandem::rpc
