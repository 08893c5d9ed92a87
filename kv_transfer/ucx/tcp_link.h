// One TCP link at its source.
//
//   kDialing ──Hello──► kGreeting ──HelloAnswer──► kOpen
//
// Data and fences flow only when open, so that none reaches another incarnation at the address.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kv_transfer/link_driver.h"
#include "kv_transfer/ucx/am_sender.h"
#include "kv_transfer/ucx/socket_address.h"
#include "kv_transfer/ucx/tcp_messages.h"
#include "kv_transfer/ucx/worker.h"

namespace tandem::transfer::ucx {

class TcpLink;

// Finds the link that an answer is for. Owned by the completion thread.
class TcpAnswers {
 public:
  // Before the worker's first progress.
  Status Attach(Worker& worker);
  void Add(std::uint64_t id, TcpLink* link) { links_[id] = link; }
  void Remove(std::uint64_t id) { links_.erase(id); }

 private:
  static ucs_status_t OnHelloAnswer(void* self, const void* header, std::size_t header_bytes,
                                    void* data, std::size_t bytes,
                                    const ucp_am_recv_param_t* params);
  static ucs_status_t OnFenceAnswer(void* self, const void* header, std::size_t header_bytes,
                                    void* data, std::size_t bytes,
                                    const ucp_am_recv_param_t* params);

  absl::flat_hash_map<std::uint64_t, TcpLink*> links_;
};

class TcpLink final : public LinkDriver {
 public:
  struct Options {
    std::span<const std::byte> memory;
    std::uint64_t outstanding_bytes = 0;
    std::size_t gather = 0;
    Duration connect_timeout{};
    std::uint64_t incarnation = 0;
    SocketAddress address;
  };
  TcpLink(Options options, Worker& worker, TcpAnswers& answers);
  ~TcpLink() override;

  StatusOr<bool> Step(LinkQueue& queue, LinkEvents& events) override;
  void Abort(const Ticket& ticket) override;
  bool Outstanding(const Ticket& ticket) const override { return in_flight_.contains(ticket); }
  Time next_deadline() const override { return state_ == State::kOpen ? kNever : deadline_; }

  // From the worker's progress.
  void OnHelloAnswer(const HelloAnswerMessage& answer);
  void OnFenceAnswer(const FenceAnswerMessage& answer);

 private:
  enum class State { kDialing, kGreeting, kOpen };
  struct PendingFence {
    Ticket ticket;
    Cookie cookie;
  };

  Status Dial();
  bool SendSome(LinkQueue& queue);
  void SendData(LinkQueue& queue);
  void SendFence();
  bool ReportFences(LinkEvents& events);

  const Options options_;
  Worker& worker_;
  TcpAnswers& answers_;
  const std::uint64_t id_;
  State state_ = State::kDialing;
  Time deadline_ = kNever;
  bool greeted_ = false;
  Status failure_;
  std::uint64_t last_sequence_ = 0;
  std::uint64_t last_fence_ = 0;
  std::uint64_t bytes_in_flight_ = 0;
  absl::flat_hash_map<Ticket, std::uint32_t> in_flight_;  // messages; never 0
  absl::flat_hash_map<std::uint64_t, PendingFence> fences_;
  std::vector<FenceAnswerMessage> fence_answers_;
  LinkQueue::Item item_;
  std::unique_ptr<AmSender> sender_;  // last: its end calls back into the above
};

}  // namespace tandem::transfer::ucx
