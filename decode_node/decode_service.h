// The decode node: DecodeCore with its clock, connections, engine and landing zone. Decides
// nothing.
//
//   routers ◄─ PeerTable ─►  DecodeCore  ─actions─► EngineThread (Step)
//   sources ◄─                                      KvLanding (Expect, verify, watch)
//
// State lives on one strand. The public methods may be called from any thread but the service's
// own, by one caller at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/cpu_list.h"
#include "common/base/status.h"
#include "common/engine/kv_arena.h"
#include "common/net/endpoint.h"
#include "common/net/io_threads.h"
#include "common/net/strand.h"
#include "common/worker/core_loop.h"
#include "common/worker/core_turns.h"
#include "common/worker/engine_thread.h"
#include "common/worker/node_program.h"
#include "common/worker/note_log.h"
#include "common/worker/peer_table.h"
#include "decode_node/core/decode_core.h"
#include "decode_node/kv_landing.h"

namespace tandem::decode_node {

class DecodeService final : public worker::NodeService {
 public:
  struct Options {
    std::string name;
    net::HostPort listen{.host = "127.0.0.1", .port = 0};
    kv::BlockCount num_blocks{0};
    TokenCount max_context{0};
    std::int32_t step_sequences = 64;
    std::int32_t threads = 0;
    int nice = 0;
    CpuList cpus;            // of the computing threads; empty: any
    std::string core_group;  // of engines that share its cores; empty: none do
    Duration itl_target{0};  // in a core group; zero: 1.75 times the undisturbed step
    transfer::Transport transport = transfer::Transport::kUcxShm;
    std::string net_device;
    std::shared_ptr<transfer::loopback::Hub> hub;
    rpc::Options rpc;
  };

  // Listens when it returns. `model` outlives it. Errors: those of its parts.
  static StatusOr<std::unique_ptr<DecodeService>> Start(const model::Model& model,
                                                        const Hash128& instance,
                                                        const Options& options);
  ~DecodeService() override;

  const net::HostPort& address() const override { return address_; }

  void BeginDrain(Duration budget) override { loop_.BeginDrain(budget); }
  void WatchDrain(worker::DrainEvents events) override { loop_.WatchDrain(std::move(events)); }
  scheduler::StepProgress Progress() override { return loop_.Progress(); }
  std::string Report() override;

 private:
  explicit DecodeService(const DecodeConfig& config);
  Status Open(const model::Model& model, const Options& options);
  KvLanding::Events LandingEvents();
  worker::PeerTable::Events PeerEvents();

  void Do(handoff::Send& action);
  void Do(NodeNote& note) { worker::LogNote(note, peers_->NameOf(note.peer)); }
  void Do(StartStep& action) { engine_->Run(action.step, action.batch, action.expected); }
  void Do(Expect& action) { landing_->Do(action); }
  void Do(StopExpecting& action) { landing_->Do(action); }
  void Do(Verify& action) { landing_->Do(action); }
  void Do(VerifyProbe& action) { landing_->Do(action); }
  void ScheduleArrivals();
  std::vector<handoff::NodeMetric> Metrics() const;

  const DecodeConfig config_;
  net::IoThreads io_{1};
  net::Strand strand_{io_};
  worker::CoreLoop<DecodeCore, Action> loop_;
  net::Timer arrivals_{strand_};
  handoff::Hello own_;
  net::HostPort address_;
  std::unique_ptr<KvLanding> landing_;
  std::optional<engine::KvArena> arena_;
  std::unique_ptr<worker::CoreTurns> turns_;  // null: the engine has cores of its own
  std::unique_ptr<worker::EngineThread> engine_;
  std::unique_ptr<worker::PeerTable> peers_;
};

}  // namespace tandem::decode_node
