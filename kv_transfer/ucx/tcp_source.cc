#include <memory>
#include <utility>

#include "kv_transfer/source_core.h"
#include "kv_transfer/ucx/envelope.h"
#include "kv_transfer/ucx/tcp.h"
#include "kv_transfer/ucx/tcp_link.h"
#include "kv_transfer/ucx/worker.h"

namespace tandem::transfer::ucx {
namespace {

StatusOr<std::unique_ptr<LinkDriver>> MakeLink(const SourceOptions& options, Worker& worker,
                                               TcpAnswers& answers, const SinkDescriptor& sink) {
  TANDEM_ASSIGN_OR_RETURN(const Envelope envelope, Envelope::Open(sink.address));
  if (envelope.incarnation != sink.incarnation) {
    return FailedPrecondition("the sink's address is of another incarnation");
  }
  for (const RegionDescriptor& region : sink.regions) {
    TANDEM_RETURN_IF_ERROR(OpenKey(region, sink.incarnation).status());
  }
  TANDEM_ASSIGN_OR_RETURN(SocketAddress address, SocketAddress::Parse(envelope.payload));
  return std::make_unique<TcpLink>(TcpLink::Options{.memory = options.memory,
                                                    .outstanding_bytes = static_cast<std::uint64_t>(
                                                        options.outstanding_bytes.value()),
                                                    .gather = options.gather_blocks,
                                                    .connect_timeout = options.connect_timeout,
                                                    .incarnation = sink.incarnation,
                                                    .address = address},
                                   worker, answers);
}

}  // namespace

StatusOr<std::unique_ptr<Source>> CreateTcpSource(const SourceOptions& options,
                                                  SourceEventFn on_event) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker,
                          Worker::Create({.transport = Transport::kUcxTcp,
                                          .net_device = options.net_device,
                                          .shm_directory = {},
                                          .settings = options.ucx_settings}));
  // Shared with the core, which only keeps it alive.
  auto answers = std::make_shared<TcpAnswers>();
  TANDEM_RETURN_IF_ERROR(answers->Attach(*worker));
  Worker& borrowed = *worker;
  TcpAnswers& answers_ref = *answers;
  return std::make_unique<SourceCore>(
      options, std::move(on_event),
      SourceCore::Parts{.poller = std::move(worker),
                        .make_driver =
                            [options, &borrowed, &answers_ref](const SinkDescriptor& sink) {
                              return MakeLink(options, borrowed, answers_ref, sink);
                            },
                        .keep_alive = std::move(answers)});
}

}  // namespace tandem::transfer::ucx
