#include "common/worker/peer_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "common/base/mutex.h"

namespace tandem::worker {
namespace {

using handoff::NodeId;
using handoff::Role;

handoff::Hello HelloOf(Role role, std::string name, std::uint64_t incarnation) {
  handoff::Hello hello;
  hello.role = role;
  hello.name = std::move(name);
  hello.incarnation = handoff::Incarnation(incarnation);
  hello.layout = {.num_layers = 1, .num_kv_heads = 1, .head_dim = 16};
  return hello;
}

// A table with its threads, and what it reported.
class Host {
 public:
  Host(handoff::Hello own, std::string refused_name = "") : refused_name_(std::move(refused_name)) {
    options_.heartbeat_every = std::chrono::milliseconds(10);
    PeerTable::Events events;
    events.check = [this](const handoff::Hello& peer) -> std::optional<handoff::HelloRefused> {
      if (peer.name != refused_name_) return std::nullopt;
      return handoff::HelloRefused{"model_instance", "another one"};
    };
    events.connected = [this](NodeId node, const handoff::Hello& hello) {
      MutexLock lock(mutex_);
      connected_.emplace_back(node, hello.name);
    };
    events.lost = [this](NodeId node, Role) {
      MutexLock lock(mutex_);
      lost_.push_back(node);
    };
    events.message = [this](NodeId from, handoff::Message message) {
      MutexLock lock(mutex_);
      if (std::holds_alternative<handoff::Heartbeat>(message)) {
        ++heartbeats_;
      } else {
        messages_.emplace_back(from, std::string(handoff::MessageName(message)));
      }
    };
    events.heartbeat = [](NodeId) { return handoff::Heartbeat{}; };
    table_ = std::make_unique<PeerTable>(io_, strand_, options_, std::move(own), std::move(events));
  }
  ~Host() { Stop(); }

  void Stop() {
    if (stopped_) return;
    stopped_ = true;
    std::promise<void> done;
    strand_.Post([&] { table_->CloseAll([&] { done.set_value(); }); });
    done.get_future().wait();
    io_.Stop();
  }
  handoff::PeerInfo Listen(std::string name, net::HostPort where = {"127.0.0.1", 0}) {
    auto address = table_->Listen(where);
    EXPECT_TRUE(address.ok()) << address.status();
    return {.name = std::move(name), .rpc_address = address->ToString()};
  }
  void Dial(std::vector<handoff::PeerInfo> peers) {
    strand_.Post([this, peers = std::move(peers)] { table_->SetDialed(peers); });
  }
  void Send(NodeId to, handoff::Message message) {
    strand_.Post([this, to, message = std::move(message)] { table_->Send(to, message); });
  }
  std::pair<NodeId, std::string> AwaitConnected(std::size_t count = 1) {
    return Await(connected_, count);
  }
  NodeId AwaitLost(std::size_t count = 1) { return Await(lost_, count); }
  std::pair<NodeId, std::string> AwaitMessage() { return Await(messages_, 1); }
  // Waits for as many further heartbeats: time in which other things would have happened.
  void AwaitHeartbeats(int count) {
    MutexLock lock(mutex_);
    struct Wanted {
      Host* host;
      int count;
    } wanted{this, heartbeats_ + count};
    mutex_.Await([w = &wanted] { return w->host->heartbeats_ >= w->count; });
  }
  std::size_t num_lost() {
    MutexLock lock(mutex_);
    return lost_.size();
  }
  std::size_t num_joined() {
    MutexLock lock(mutex_);
    return connected_.size();
  }

 private:
  template <typename T>
  T Await(const std::vector<T>& list, std::size_t count) {
    MutexLock lock(mutex_);
    struct Wanted {
      const std::vector<T>* list;
      std::size_t count;
    } wanted{&list, count};
    mutex_.Await([w = &wanted] { return w->list->size() >= w->count; });
    return list[count - 1];
  }

  const std::string refused_name_;
  rpc::Options options_;
  Mutex mutex_;
  std::vector<std::pair<NodeId, std::string>> connected_;
  std::vector<NodeId> lost_;
  std::vector<std::pair<NodeId, std::string>> messages_;
  int heartbeats_ = 0;
  bool stopped_ = false;
  net::IoThreads io_{1};
  net::Strand strand_{io_};
  std::unique_ptr<PeerTable> table_;
};

TEST(PeerTableTest, DialedAndAcceptedPeersExchangeMessages) {
  Host node(HelloOf(Role::kDecode, "decode", 1));
  Host router(HelloOf(Role::kRouter, "router", 2));
  router.Dial({node.Listen("decode")});
  EXPECT_EQ(router.AwaitConnected().second, "decode");
  const auto [id, name] = node.AwaitConnected();
  EXPECT_EQ(name, "router");
  node.Send(id, handoff::Joined{.key = {.attempt = handoff::Attempt(1)}});
  EXPECT_EQ(router.AwaitMessage().second, "Joined");
}

TEST(PeerTableTest, LostPeerIsDialedAgainAndKeepsItsNodeIdOnlyInTheSameLife) {
  auto node = std::make_unique<Host>(HelloOf(Role::kDecode, "decode", 1));
  Host router(HelloOf(Role::kRouter, "router", 2));
  const handoff::PeerInfo where = node->Listen("decode");
  router.Dial({where});
  const NodeId first = router.AwaitConnected().first;
  const net::HostPort address = *net::ParseHostPort(where.rpc_address);
  node.reset();
  EXPECT_EQ(router.AwaitLost(), first);
  node = std::make_unique<Host>(HelloOf(Role::kDecode, "decode", 1));
  node->Listen("decode", address);
  EXPECT_EQ(router.AwaitConnected(2).first, first);
  node.reset();
  router.AwaitLost(2);
  node = std::make_unique<Host>(HelloOf(Role::kDecode, "decode", 9));
  node->Listen("decode", address);
  EXPECT_NE(router.AwaitConnected(3).first, first);
}

TEST(PeerTableTest, SameNameAndLifeReplacesTheOlderConnection) {
  Host node(HelloOf(Role::kDecode, "decode", 1));
  const handoff::PeerInfo where = node.Listen("decode");
  Host router(HelloOf(Role::kRouter, "router", 2));
  router.Dial({where});
  const NodeId id = node.AwaitConnected().first;
  // The same process again, as after a link that only one side saw break.
  Host again(HelloOf(Role::kRouter, "router", 2));
  again.Dial({where});
  EXPECT_EQ(node.AwaitConnected(2).first, id);
  EXPECT_EQ(node.AwaitLost(), id);
}

TEST(PeerTableTest, SecondNodeOfOneNameIsRefusedWhileTheFirstAnswers) {
  Host node(HelloOf(Role::kDecode, "decode", 1));
  const handoff::PeerInfo where = node.Listen("decode");
  Host first(HelloOf(Role::kRouter, "router", 2));
  first.Dial({where});
  node.AwaitConnected();
  Host second(HelloOf(Role::kRouter, "router", 3));
  second.Dial({where});
  first.AwaitHeartbeats(30);
  EXPECT_EQ(node.num_joined(), 1u);
  EXPECT_EQ(node.num_lost(), 0u);
  first.Stop();
  EXPECT_EQ(node.AwaitConnected(2).second, "router");
}

TEST(PeerTableTest, PeerThatDoesNotFitNeverJoins) {
  Host node(HelloOf(Role::kDecode, "decode", 1), "stranger");
  const handoff::PeerInfo where = node.Listen("decode");
  Host stranger(HelloOf(Role::kRouter, "stranger", 2));
  stranger.Dial({where});
  Host router(HelloOf(Role::kRouter, "router", 3));
  router.Dial({where});
  EXPECT_EQ(node.AwaitConnected().second, "router");
  router.AwaitHeartbeats(20);
  EXPECT_EQ(node.num_joined(), 1u);
  EXPECT_EQ(stranger.num_lost(), 0u);
}

TEST(PeerTableTest, PeerNoLongerWantedIsClosedAndNotDialedAgain) {
  Host node(HelloOf(Role::kDecode, "decode", 1));
  Host other(HelloOf(Role::kDecode, "other", 2));
  const handoff::PeerInfo a = node.Listen("decode");
  const handoff::PeerInfo b = other.Listen("other");
  Host source(HelloOf(Role::kPrefill, "prefill", 3));
  source.Dial({a, b});
  node.AwaitConnected();
  other.AwaitConnected();
  source.Dial({b});
  node.AwaitLost();
  other.AwaitHeartbeats(20);
  EXPECT_EQ(node.num_joined(), 1u);
  EXPECT_EQ(other.num_lost(), 0u);
}

}  // namespace
}  // namespace tandem::worker
