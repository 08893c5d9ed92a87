// One life of a simulated process: what is due in it, its clock, its connections. Does what
// rpc::Connection, worker::PeerTable and router::NodeLink do in a real one: says Hello, keeps one
// connection a peer, sends heartbeats, closes what is silent, dials again what was lost.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/handoff/events.h"
#include "common/handoff/messages.h"
#include "common/handoff/node_directory.h"
#include "deploy/sim/network.h"
#include "deploy/sim/world.h"

namespace tandem::sim {

class Process : public EventOwner {
 public:
  Process(World& world, Network& network, handoff::Role role, std::string name,
          handoff::Incarnation incarnation);
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  handoff::Role role() const { return role_; }
  std::int32_t host() const { return host_; }
  bool alive() const { return !dead; }
  // By this process's clock.
  Time now() const { return world_.loop.now() + clock_offset_; }
  void After(Duration delay, Callback run) {
    world_.loop.At(world_.loop.now() + delay, this, std::move(run));
  }

  // Listens and sends heartbeats from now on.
  void Start();
  // SIGKILL: nothing more happens in it, the kernel closes its connections.
  void Kill();
  // Closes its connections in good order and ends.
  void Exit();
  void Stop() { stopped = true; }
  void Continue();
  void JumpClock(Duration by);
  void MuteUntil(Time until) { mute_until_ = until; }
  void SlowDown(std::int32_t times, Time until) {
    slowness_ = times;
    slow_until_ = until;
  }
  bool muted() const { return world_.loop.now() < mute_until_; }
  bool slow() const { return world_.loop.now() < slow_until_; }
  void FailSteps(std::int32_t count) { failing_steps_ += count; }
  // SIGTERM: finishes what it has within `budget`, then exits.
  virtual void BeginDrain(Duration) {}
  // Called when this process has ended; `killed` or by itself.
  void SetEnded(std::function<void(bool killed)> ended) { ended_ = std::move(ended); }
  // `gone` runs in `watcher` soon after this process's end (a pidfd).
  void Watch(Process& watcher, std::function<void()> gone);

  void OnDialed(Connection& connection);
  void OnPacket(Connection& connection, int side, Packet packet);

  // The invariants that an event in this process can break, and what must be left at the end:
  // nothing, or a line that says what is.
  virtual void CheckAfterEvent() {}
  virtual std::string LeftInBooks() const = 0;

 protected:
  virtual handoff::Hello MakeHello() const = 0;
  virtual void Connected(handoff::NodeId peer, const handoff::Hello& hello, Process& process) = 0;
  virtual void Lost(handoff::NodeId peer, handoff::Role role, handoff::Loss loss) = 0;
  virtual void Received(handoff::NodeId from, handoff::Message message) = 0;
  virtual handoff::Heartbeat MakeHeartbeat(handoff::NodeId to) = 0;
  virtual void Died() {}
  // Of its core.
  virtual Time NextDeadline() const = 0;
  virtual void OnTime() = 0;

  // Calls OnTime at NextDeadline, by the own clock.
  void ArmTimer();

  // Dropped when that peer is not connected.
  void Send(handoff::NodeId to, handoff::Message message);
  bool IsConnectedTo(const Process& peer) const;
  // The whole list of peers to be connected to. A changed incarnation is dialed at once.
  void SetDialed(const std::vector<std::pair<std::string, handoff::Incarnation>>& peers);
  void Broken(const std::string& what);
  Duration StepTime(Duration took) const { return slow() ? took * slowness_ : took; }
  bool TakeFailingStep() { return failing_steps_ > 0 && failing_steps_-- > 0; }

  World& world_;
  Network& network_;
  const handoff::Incarnation incarnation_;

 private:
  struct Ref {
    Connection* connection = nullptr;
    int side = 0;
    Connection::Side& mine() const { return connection->sides[static_cast<std::size_t>(side)]; }
    Connection::Side& peer() const { return connection->sides[static_cast<std::size_t>(1 - side)]; }
  };
  struct Dialed {
    handoff::Incarnation incarnation;
    Connection* connection = nullptr;
    bool under_way = false;
    Duration backoff{0};
    std::uint64_t try_number = 0;
  };

  void Tick();
  void Dial(const std::string& name);
  void DialLater(const std::string& name);
  void OnHello(Ref ref, const handoff::Hello& hello);
  void Decide(Ref ref, Ref old, int pings_left);
  void Join(Ref ref);
  void Forget(Ref ref, handoff::Loss loss);
  void OnClosed(Ref ref, handoff::Loss loss);
  void CloseOwn(Ref ref, handoff::Loss loss, bool abrupt);
  const Ref* FindByName(const std::string& name) const;
  void End(bool abrupt);

  Time timer_ = kNever;
  const handoff::Role role_;
  const std::string name_;
  const std::int32_t host_;
  Duration clock_offset_{0};
  Time mute_until_{};
  Time slow_until_{};
  std::int32_t slowness_ = 1;
  std::int32_t failing_steps_ = 0;
  bool tick_late_ = false;
  handoff::NodeDirectory directory_;
  std::vector<Ref> open_;
  std::map<handoff::NodeId, Ref> joined_;
  std::map<std::string, Dialed> dialed_;
  std::vector<std::pair<Process*, std::function<void()>>> watchers_;
  std::function<void(bool killed)> ended_;
};

}  // namespace tandem::sim
