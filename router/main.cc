// tandem-router: wires the parts, serves until SIGINT or SIGTERM, stops in order.
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>

#include "common/base/descriptor_limit.h"
#include "common/base/mutex.h"
#include "common/base/progress_line.h"
#include "common/config/program_options.h"
#include "common/log/log.h"
#include "common/metrics/registry.h"
#include "common/net/http_server.h"
#include "common/net/io_threads.h"
#include "common/net/port_file.h"
#include "common/net/strand.h"
#include "common/net/strand_impl.h"
#include "router/admin/admin_handler.h"
#include "router/api/api_handler.h"
#include "router/api/api_keys.h"
#include "router/api/api_probe.h"
#include "router/api/served_model.h"
#include "router/api/work_queue.h"
#include "router/model_files.h"
#include "router/router_flags.h"
#include "router/router_service.h"

namespace tandem::router {
namespace {

constexpr std::size_t kInlineBytes = 16 << 10;  // of a body; longer ones leave the strand
constexpr std::size_t kQueuedPrompts = 128;

std::int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::uint64_t RandomBits() {
  static std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

RouterService::Options ServiceOptions(const RouterFlags& flags, TokenCount context) {
  RouterService::Options options;
  options.prefill = Addresses(flags.prefill);
  options.decode = Addresses(flags.decode);
  options.core.incarnation = handoff::Incarnation(RandomBits() | 1);
  options.core.requests_max = flags.max_requests;
  options.core.queued_max = flags.max_queued;
  options.core.no_pair_wait = flags.no_pair_wait;
  options.model_context = context;
  options.name = fmt::format("router-{:016x}", options.core.incarnation.value());
  return options;
}

net::HttpServerOptions ServerOptions(const RouterFlags& flags) {
  net::HttpServerOptions options;
  options.limits.body_bytes = static_cast<std::size_t>(flags.max_body.value());
  options.max_bodies_bytes = static_cast<std::size_t>(flags.max_bodies.value());
  options.max_connections = static_cast<std::size_t>(flags.max_connections);
  options.max_connections_per_address = static_cast<std::size_t>(flags.max_connections_per_address);
  return options;
}

// The admin port, where one is wanted.
StatusOr<std::unique_ptr<net::HttpServer>> OpenAdmin(net::IoThreads& io, const net::Strand& strand,
                                                     const RouterFlags& flags,
                                                     net::HttpHandler& handler) {
  if (flags.admin_port < 0) return nullptr;
  net::HttpServerOptions options;
  options.limits.body_bytes = 64 << 10;
  options.max_connections = 32;
  TANDEM_ASSIGN_OR_RETURN(
      auto server, net::HttpServer::Open(
                       io, strand, {flags.admin_host, static_cast<std::uint16_t>(flags.admin_port)},
                       handler, options));
  TANDEM_RETURN_IF_ERROR(net::WritePortFile(flags.admin_port_file, server->address()));
  log::Info("router.admin", "address={}", server->address().ToString());
  return server;
}

ServedModel::Options ModelOptions(const RouterFlags& flags) {
  return {.ids = flags.alias.empty() ? std::vector{ModelName(flags.model)} : flags.alias,
          .created_unix_s = UnixSeconds()};
}

// Until `finished`. The supervisor hears meanwhile that the strand answers; where it hangs,
// nothing.
void Attend(Notification& finished, const net::Strand& strand, int progress_fd) {
  do {
    strand.Run([] {});
    ProgressLine().Write(progress_fd);
  } while (!finished.WaitUntil(SteadyNow() + ProgressLine::kEvery));
}

Status Serve(const RouterFlags& flags) {
  RaiseDescriptorLimit();
  TANDEM_ASSIGN_OR_RETURN(ModelFiles files, ReadModelFiles(flags.model));
  const TokenCount context_tokens = files.context;
  ServedModel model(ModelOptions(flags), std::move(files.tokenizer));
  if (!model.chat_status().ok()) {
    log::Warning("router.chat.unsupported", "reason=\"{}\"",
                 FromAbsl(model.chat_status().message()));
  }

  metrics::Registry registry;
  ApiProbe probe(registry);
  ApiKeys keys(flags.api_keys);
  net::IoThreads io(1);
  net::Strand strand(io);
  RouterService service(io, strand, registry, ServiceOptions(flags, context_tokens));
  WorkQueue work(kQueuedPrompts);
  const CallContext context{.model = model,
                            .backend = service,
                            .work = work,
                            .strand = strand,
                            .probe = probe,
                            .deadline = flags.deadline,
                            .inline_bytes = kInlineBytes,
                            .random = RandomBits,
                            .unix_time_s = UnixSeconds};
  ApiHandler handler(context, keys, registry, TANDEM_VERSION, CorsPolicy(flags.cors_origins));
  TANDEM_ASSIGN_OR_RETURN(
      auto server,
      net::HttpServer::Open(io, strand, {flags.host, static_cast<std::uint16_t>(flags.port)},
                            handler, ServerOptions(flags)));
  AdminHandler admin_handler(service, keys);
  TANDEM_ASSIGN_OR_RETURN(auto admin, OpenAdmin(io, strand, flags, admin_handler));

  boost::asio::signal_set signals(strand.impl().executor, SIGINT, SIGTERM);
  Notification finished;
  Notification flushed;
  strand.Run([&] {
    signals.async_wait([&](const boost::system::error_code& ec, int number) {
      if (ec) return;
      log::Info("router.stopping", "signal={} grace_s={}", number, ToSeconds(flags.stop_grace));
      server->Stop([&] { flushed.Notify(); });
      service.Stop(flags.stop_grace, [&] { finished.Notify(); });
      // A second signal ends the grace.
      signals.async_wait([&](const boost::system::error_code& again, int) {
        if (!again) service.CancelAll();
      });
    });
    service.Start();
  });
  const Status announced = net::WritePortFile(flags.port_file, server->address());
  if (announced.ok()) {
    log::Info("router.listening", "address={} model={}", server->address().ToString(), model.id());
    Attend(finished, strand, flags.progress_fd);
    // The last answers are on their way; a client that does not read them is not waited for.
    flushed.WaitUntil(SteadyNow() + std::chrono::seconds(2));
  }
  strand.Run([&] {
    signals.cancel();
    server->Close();
    if (admin != nullptr) admin->Close();
    service.Disconnect();
  });
  io.Stop();
  log::Info("router.stopped");
  return announced;
}

int Main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // of a supervisor that is gone
  RouterFlags flags;
  config::ProgramOptions options("tandem-router",
                                 "Speaks the OpenAI API and owns every request; prefill and "
                                 "decode nodes do the work.");
  flags.AddTo(options);
  auto outcome = options.Parse(argc, argv);
  Status status = outcome.status();
  if (outcome.ok()) {
    if (*outcome == config::ProgramOptions::Outcome::kShown) return 0;
    status = flags.Validate();
  }
  if (status.ok()) status = log::SetLevel(flags.log_level);
  if (!status.ok()) {
    std::fprintf(stderr, "tandem-router: %s\n", std::string(FromAbsl(status.message())).c_str());
    return 2;
  }
  status = Serve(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "tandem-router: %s\n", std::string(FromAbsl(status.message())).c_str());
  return 1;
}

}  // namespace
}  // namespace tandem::router

int main(int argc, char** argv) { return tandem::router::Main(argc, argv); }
