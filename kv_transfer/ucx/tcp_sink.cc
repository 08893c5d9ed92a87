#include "kv_transfer/ucx/tcp_sink.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/log/log.h"
#include "kv_transfer/ucx/endpoint.h"
#include "kv_transfer/ucx/envelope.h"
#include "kv_transfer/ucx/socket_address.h"
#include "kv_transfer/ucx/tcp.h"

namespace tandem::transfer::ucx {
namespace {

// A well-behaved source stays far below these; one that does not loses its link.
constexpr std::size_t kMaxAhead = 4096;
constexpr std::size_t kMaxFences = 4096;
constexpr std::size_t kMaxDroppedTickets = 4096;

}  // namespace

StatusOr<std::unique_ptr<Sink>> CreateTcpSink(const SinkOptions& options, SinkEventFn on_event) {
  return TcpSink::Create(options, std::move(on_event));
}

StatusOr<std::unique_ptr<Sink>> TcpSink::Create(const SinkOptions& options, SinkEventFn on_event) {
  Parts parts;
  parts.descriptor.transport = Transport::kUcxTcp;
  parts.descriptor.incarnation = options.incarnation;
  TANDEM_ASSIGN_OR_RETURN(parts.descriptor.process, ProcessIdentity::Self());
  for (const RegionSpec& spec : options.regions) {
    TANDEM_ASSIGN_OR_RETURN(HostMemory bytes, HostMemory::Allocate(spec.length));
    parts.regions.push_back({spec.id, bytes.bytes()});
    // Opens nothing; it only vouches for the region's length and incarnation.
    const Envelope key{.incarnation = options.incarnation,
                       .base = 0,
                       .length = static_cast<std::uint64_t>(spec.length.value()),
                       .payload = "tcp"};
    parts.descriptor.regions.push_back({spec.id, spec.length, key.Seal()});
    parts.memory.push_back(std::move(bytes));
  }
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker,
                          Worker::Create({.transport = Transport::kUcxTcp,
                                          .net_device = options.net_device,
                                          .shm_directory = {},
                                          .settings = options.ucx_settings}));
  std::unique_ptr<TcpSink> sink(
      new TcpSink(options, std::move(worker), std::move(parts), std::move(on_event)));
  TANDEM_RETURN_IF_ERROR(sink->Listen(options));
  return std::unique_ptr<Sink>(std::move(sink));
}

TcpSink::TcpSink(const SinkOptions& options, std::unique_ptr<Worker> worker, Parts parts,
                 SinkEventFn on_event)
    : max_links_(options.max_links),
      on_event_(std::move(on_event)),
      memory_(std::move(parts.memory)),
      landing_(std::move(parts.regions), options.max_tickets),
      descriptor_(std::move(parts.descriptor)),
      unstarted_(std::move(worker)),
      worker_(*unstarted_) {}

Status TcpSink::Listen(const SinkOptions& options) {
  TANDEM_RETURN_IF_ERROR(worker_.SetHandler(kHello, &TcpSink::OnHello, this));
  TANDEM_RETURN_IF_ERROR(worker_.SetHandler(kData, &TcpSink::OnData, this));
  TANDEM_RETURN_IF_ERROR(worker_.SetHandler(kFence, &TcpSink::OnFence, this));
  TANDEM_ASSIGN_OR_RETURN(const SocketAddress wanted, SocketAddress::OfDevice(options.net_device));
  TANDEM_ASSIGN_OR_RETURN(listener_, Listener::Create(worker_, wanted));
  const Envelope envelope{.incarnation = options.incarnation,
                          .base = 0,
                          .length = 0,
                          .payload = listener_->address().ToString()};
  descriptor_.address = envelope.Seal();
  thread_ = std::make_unique<CompletionThread>(
      std::move(unstarted_), CompletionThread::Work{.step = [this] { return Step(); },
                                                    .next_deadline = [] { return kNever; },
                                                    .finish =
                                                        [this] {
                                                          by_id_.clear();
                                                          links_.clear();
                                                          listener_.reset();
                                                        }});
  return OkStatus();
}

TcpSink::~TcpSink() {
  if (thread_ != nullptr) thread_->Stop();
}

void TcpSink::Forget(const Ticket& ticket) {
  landing_.Forget(ticket);  // waits for a copy in progress; data that comes later is dropped
  {
    MutexLock lock(mutex_);
    forgotten_.push_back(ticket);
  }
  thread_->Wake();
}

bool TcpSink::Step() {
  std::vector<Ticket> forgotten;
  {
    MutexLock lock(mutex_);
    forgotten.swap(forgotten_);
  }
  for (const Ticket& ticket : forgotten) on_event_(Forgotten{ticket});
  bool worked = !forgotten.empty() | AcceptSources();
  for (const std::unique_ptr<Link>& link : links_) worked |= AnswerFences(*link);
  const std::size_t before = links_.size();
  std::erase_if(links_, [&](const std::unique_ptr<Link>& link) {
    if (!link->broken && link->sender->failure().ok()) return false;
    by_id_.erase(link->id);
    return true;
  });
  return worked || links_.size() != before;
}

bool TcpSink::AcceptSources() {
  const std::vector<ucp_conn_request_h> requests = listener_->TakeRequests();
  for (ucp_conn_request_h request : requests) {
    if (links_.size() >= max_links_) {
      log::Warning("kv.sink.refused", "links={}", links_.size());
      listener_->Reject(request);
      continue;
    }
    StatusOr<std::unique_ptr<Endpoint>> endpoint = Endpoint::Accept(worker_, request);
    if (!endpoint.ok()) {
      log::Warning("kv.sink.accept_failed", "reason={:?}", FromAbsl(endpoint.status().message()));
      continue;
    }
    auto link = std::make_unique<Link>();
    link->sender = std::make_unique<AmSender>(worker_, *std::move(endpoint));
    links_.push_back(std::move(link));
  }
  return !requests.empty();
}

bool TcpSink::AnswerFences(Link& link) {
  bool answered = false;
  for (std::size_t i = 0; i < link.fences.size();) {
    const FenceMessage fence = link.fences[i];
    if (fence.last_sequence > link.handled || !link.sender->failure().ok()) {
      ++i;
      continue;
    }
    link.fences.erase(link.fences.begin() + static_cast<std::ptrdiff_t>(i));
    std::uint64_t dropped = 0;
    if (const auto entry = link.dropped.find(fence.ticket); entry != link.dropped.end()) {
      dropped = entry->second;
      link.dropped.erase(entry);
    }
    std::string header;
    Append(header,
           FenceAnswerMessage{.link = link.id, .fence = fence.fence, .dropped_bytes = dropped});
    link.sender->Send(kFenceAnswer, std::move(header), {}, nullptr);
    answered = true;
  }
  return answered;
}

TcpSink::Link* TcpSink::Find(std::uint64_t id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() || found->second->broken ? nullptr : found->second;
}

ucs_status_t TcpSink::OnHello(void* self, const void* header, std::size_t header_bytes, void*,
                              std::size_t, const ucp_am_recv_param_t* params) {
  auto& sink = *static_cast<TcpSink*>(self);
  const auto hello = Parse<HelloMessage>(header, header_bytes);
  if (!hello.has_value() || hello->magic != HelloMessage::kMagic) return UCS_OK;
  for (const std::unique_ptr<Link>& link : sink.links_) {
    const bool same = (params->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0 &&
                      link->sender->endpoint() == params->reply_ep;
    if (!same || link->id != 0 || hello->link == 0 || sink.by_id_.contains(hello->link)) continue;
    link->id = hello->link;
    sink.by_id_[hello->link] = link.get();
    std::string answer;
    Append(answer,
           HelloAnswerMessage{.link = hello->link, .incarnation = sink.descriptor_.incarnation});
    link->sender->Send(kHelloAnswer, std::move(answer), {}, nullptr);
    break;
  }
  return UCS_OK;
}

ucs_status_t TcpSink::OnData(void* self, const void* header, std::size_t header_bytes, void* data,
                             std::size_t bytes, const ucp_am_recv_param_t*) {
  auto& sink = *static_cast<TcpSink*>(self);
  const auto message = Parse<DataMessage>(header, header_bytes);
  if (!message.has_value() || message->num_spans > kMaxSpans ||
      header_bytes != sizeof(DataMessage) + message->num_spans * sizeof(SpanRecord)) {
    return UCS_OK;
  }
  std::array<SpanRecord, kMaxSpans> spans;
  std::memcpy(spans.data(), static_cast<const std::byte*>(header) + sizeof(DataMessage),
              message->num_spans * sizeof(SpanRecord));
  Link* link = sink.Find(message->link);
  if (link == nullptr) return UCS_OK;
  sink.TakeData(*link, *message, std::span(spans).first(message->num_spans),
                {static_cast<const std::byte*>(data), bytes});
  return UCS_OK;
}

void TcpSink::TakeData(Link& link, const DataMessage& message, std::span<const SpanRecord> spans,
                       std::span<const std::byte> data) {
  std::array<SinkRange, kMaxSpans> ranges;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    ranges[i] = {RegionId(spans[i].region), spans[i].offset, spans[i].length};
  }
  const Status taken = landing_.Take(message.ticket, std::span(ranges).first(spans.size()), data);
  if (!taken.ok()) link.dropped[message.ticket] += data.size();
  if (message.sequence == link.handled + 1) {
    ++link.handled;
    while (!link.ahead.empty() && *link.ahead.begin() == link.handled + 1) {
      link.ahead.erase(link.ahead.begin());
      ++link.handled;
    }
  } else {
    link.ahead.insert(message.sequence);
  }
  link.broken |= link.ahead.size() > kMaxAhead || link.dropped.size() > kMaxDroppedTickets;
}

ucs_status_t TcpSink::OnFence(void* self, const void* header, std::size_t header_bytes, void*,
                              std::size_t, const ucp_am_recv_param_t*) {
  auto& sink = *static_cast<TcpSink*>(self);
  const auto fence = Parse<FenceMessage>(header, header_bytes);
  if (!fence.has_value()) return UCS_OK;
  if (Link* link = sink.Find(fence->link); link != nullptr) {
    link->fences.push_back(*fence);
    link->broken |= link->fences.size() > kMaxFences;
  }
  return UCS_OK;
}

}  // namespace tandem::transfer::ucx
