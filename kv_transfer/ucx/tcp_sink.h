// The sink's end on TCP: accepts sources, takes their data through a Landing, answers their fences.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "kv_transfer/completion_thread.h"
#include "kv_transfer/create.h"
#include "kv_transfer/host_memory.h"
#include "kv_transfer/landing.h"
#include "kv_transfer/ucx/am_sender.h"
#include "kv_transfer/ucx/listener.h"
#include "kv_transfer/ucx/tcp_messages.h"
#include "kv_transfer/ucx/worker.h"

namespace tandem::transfer::ucx {

class TcpSink final : public Sink {
 public:
  static StatusOr<std::unique_ptr<Sink>> Create(const SinkOptions& options, SinkEventFn on_event);
  ~TcpSink() override;

  const SinkDescriptor& descriptor() const override { return descriptor_; }
  std::span<std::byte> memory(RegionId id) override { return landing_.memory(id); }
  DrainProof drain_proof() const override { return DrainProof::kSink; }
  Status Expect(const Ticket& ticket, std::span<const SinkRange> ranges) override {
    return landing_.Expect(ticket, ranges);
  }
  void Forget(const Ticket& ticket) override;
  ByteCount Received(const Ticket& ticket) const override { return landing_.Received(ticket); }
  SinkStats stats() const override { return landing_.stats(); }

 private:
  // A source that has connected; known by its own id once its Hello came.
  struct Link {
    std::unique_ptr<AmSender> sender;
    std::uint64_t id = 0;
    std::uint64_t handled = 0;                           // every message up to this sequence
    std::set<std::uint64_t> ahead;                       // messages beyond it
    std::vector<FenceMessage> fences;                    // not yet answered
    absl::flat_hash_map<Ticket, std::uint64_t> dropped;  // bytes since the ticket's last fence
    bool broken = false;                                 // to be closed by the next step
  };
  struct Parts {
    std::vector<HostMemory> memory;
    std::vector<Landing::Region> regions;
    SinkDescriptor descriptor;
  };

  TcpSink(const SinkOptions& options, std::unique_ptr<Worker> worker, Parts parts,
          SinkEventFn on_event);
  Status Listen(const SinkOptions& options);
  bool Step();
  bool AcceptSources();
  bool AnswerFences(Link& link);
  void TakeData(Link& link, const DataMessage& message, std::span<const SpanRecord> spans,
                std::span<const std::byte> data);
  Link* Find(std::uint64_t id);

  static ucs_status_t OnHello(void* self, const void* header, std::size_t header_bytes, void* data,
                              std::size_t bytes, const ucp_am_recv_param_t* params);
  static ucs_status_t OnData(void* self, const void* header, std::size_t header_bytes, void* data,
                             std::size_t bytes, const ucp_am_recv_param_t* params);
  static ucs_status_t OnFence(void* self, const void* header, std::size_t header_bytes, void* data,
                              std::size_t bytes, const ucp_am_recv_param_t* params);

  const std::size_t max_links_;
  const SinkEventFn on_event_;
  const std::vector<HostMemory> memory_;
  Landing landing_;
  SinkDescriptor descriptor_;
  Mutex mutex_;
  std::vector<Ticket> forgotten_ ABSL_GUARDED_BY(mutex_);
  // The completion thread's, once it runs.
  std::unique_ptr<Worker> unstarted_;  // until the thread takes it
  Worker& worker_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<Link>> links_;
  absl::flat_hash_map<std::uint64_t, Link*> by_id_;
  std::unique_ptr<CompletionThread> thread_;  // last: uses all of the above
};

}  // namespace tandem::transfer::ucx
