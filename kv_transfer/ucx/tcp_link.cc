#include "kv_transfer/ucx/tcp_link.h"

#include <algorithm>
#include <random>

#include "kv_transfer/ucx/endpoint.h"

namespace tandem::transfer::ucx {
namespace {

std::uint64_t RandomId() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

// One message: small enough to land whole in one receive buffer (see CreateTcpSource).
constexpr std::uint64_t kMessageBytes = 256 << 10;

}  // namespace

Status TcpAnswers::Attach(Worker& worker) {
  TANDEM_RETURN_IF_ERROR(worker.SetHandler(kHelloAnswer, &TcpAnswers::OnHelloAnswer, this));
  return worker.SetHandler(kFenceAnswer, &TcpAnswers::OnFenceAnswer, this);
}

ucs_status_t TcpAnswers::OnHelloAnswer(void* self, const void* header, std::size_t header_bytes,
                                       void*, std::size_t, const ucp_am_recv_param_t*) {
  auto& links = static_cast<TcpAnswers*>(self)->links_;
  const auto answer = Parse<HelloAnswerMessage>(header, header_bytes);
  if (!answer.has_value()) return UCS_OK;
  if (const auto link = links.find(answer->link); link != links.end()) {
    link->second->OnHelloAnswer(*answer);
  }
  return UCS_OK;
}

ucs_status_t TcpAnswers::OnFenceAnswer(void* self, const void* header, std::size_t header_bytes,
                                       void*, std::size_t, const ucp_am_recv_param_t*) {
  auto& links = static_cast<TcpAnswers*>(self)->links_;
  const auto answer = Parse<FenceAnswerMessage>(header, header_bytes);
  if (!answer.has_value()) return UCS_OK;
  if (const auto link = links.find(answer->link); link != links.end()) {
    link->second->OnFenceAnswer(*answer);
  }
  return UCS_OK;
}

TcpLink::TcpLink(Options options, Worker& worker, TcpAnswers& answers)
    : options_(std::move(options)),
      worker_(worker),
      answers_(answers),
      id_(RandomId()),
      deadline_(SteadyNow() + options_.connect_timeout) {}

TcpLink::~TcpLink() {
  answers_.Remove(id_);
  sender_.reset();
}

StatusOr<bool> TcpLink::Step(LinkQueue& queue, LinkEvents& events) {
  if (sender_ != nullptr && !sender_->failure().ok()) return sender_->failure();
  if (!failure_.ok()) return failure_;
  switch (state_) {
    case State::kDialing:
      TANDEM_RETURN_IF_ERROR(Dial());
      state_ = State::kGreeting;
      return true;
    case State::kGreeting:
      if (greeted_) {
        state_ = State::kOpen;
        events.Ready();
        return true;
      }
      if (SteadyNow() >= deadline_) {
        return Unavailable("no answer from {} within {:.1f} s", options_.address.ToString(),
                           ToSeconds(options_.connect_timeout));
      }
      return false;
    case State::kOpen: {
      const bool reported = ReportFences(events);
      return SendSome(queue) || reported;
    }
  }
  return false;
}

Status TcpLink::Dial() {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Endpoint> endpoint,
                          Endpoint::Dial(worker_, options_.address));
  answers_.Add(id_, this);
  sender_ = std::make_unique<AmSender>(worker_, std::move(endpoint));
  std::string header;
  Append(header, HelloMessage{.link = id_, .incarnation = options_.incarnation});
  sender_->Send(kHello, std::move(header), {}, nullptr);
  return OkStatus();
}

bool TcpLink::SendSome(LinkQueue& queue) {
  bool sent = false;
  while (bytes_in_flight_ < options_.outstanding_bytes && failure_.ok() &&
         sender_->failure().ok()) {
    const LinkQueue::Budget budget{.bytes = kMessageBytes, .writes = options_.gather};
    const LinkQueue::Popped popped = queue.Pop(budget, item_);
    if (popped == LinkQueue::Popped::kNothing) break;
    if (popped == LinkQueue::Popped::kWrites) {
      SendData(queue);
    } else {
      SendFence();
    }
    sent = true;
  }
  return sent;
}

void TcpLink::SendData(LinkQueue& queue) {
  std::string header;
  header.reserve(sizeof(DataMessage) + item_.writes.size() * sizeof(SpanRecord));
  Append(header, DataMessage{.link = id_,
                             .sequence = ++last_sequence_,
                             .ticket = item_.ticket,
                             .num_spans = item_.writes.size()});
  std::vector<ucp_dt_iov_t> data;
  data.reserve(item_.writes.size());
  for (const Write& write : item_.writes) {
    Append(header, SpanRecord{.offset = write.sink_offset,
                              .region = write.region.value(),
                              .length = static_cast<std::uint32_t>(write.length)});
    // UCX's type has no const; it only reads.
    data.push_back({const_cast<std::byte*>(options_.memory.data()) + write.source_offset,
                    static_cast<std::size_t>(write.length)});
  }
  bytes_in_flight_ += item_.bytes;
  ++in_flight_[item_.ticket];
  sender_->Send(kData, std::move(header), std::move(data),
                [this, &queue, ticket = item_.ticket, bytes = item_.bytes](const Status& status) {
                  bytes_in_flight_ -= bytes;
                  if (const auto entry = in_flight_.find(ticket); --entry->second == 0) {
                    in_flight_.erase(entry);
                  }
                  if (status.ok()) {
                    queue.AddWritten(bytes);
                  } else if (failure_.ok()) {
                    failure_ = status;
                  }
                });
}

void TcpLink::SendFence() {
  const std::uint64_t fence = ++last_fence_;
  fences_[fence] = {item_.ticket, item_.cookie};
  std::string header;
  Append(header,
         FenceMessage{
             .link = id_, .fence = fence, .ticket = item_.ticket, .last_sequence = last_sequence_});
  sender_->Send(kFence, std::move(header), {}, [this](const Status& status) {
    if (!status.ok() && failure_.ok()) failure_ = status;
  });
}

bool TcpLink::ReportFences(LinkEvents& events) {
  if (fence_answers_.empty()) return false;
  for (const FenceAnswerMessage& answer : std::exchange(fence_answers_, {})) {
    const auto fence = fences_.find(answer.fence);
    if (fence == fences_.end()) continue;  // aborted
    const PendingFence pending = fence->second;
    fences_.erase(fence);
    Status status;
    if (answer.dropped_bytes > 0) {
      status = FailedPrecondition("the sink dropped {} bytes that it does not expect (any more)",
                                  answer.dropped_bytes);
    }
    events.Fenced(pending.ticket, pending.cookie, status);
  }
  return true;
}

void TcpLink::Abort(const Ticket& ticket) {
  absl::erase_if(fences_, [&](const auto& entry) { return entry.second.ticket == ticket; });
}

void TcpLink::OnHelloAnswer(const HelloAnswerMessage& answer) {
  if (answer.incarnation == options_.incarnation) {
    greeted_ = true;
  } else {
    failure_ = FailedPrecondition("another incarnation of the sink answers at {}",
                                  options_.address.ToString());
  }
}

void TcpLink::OnFenceAnswer(const FenceAnswerMessage& answer) { fence_answers_.push_back(answer); }

}  // namespace tandem::transfer::ucx
