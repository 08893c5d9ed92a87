#include "router/router_flags.h"

#include <string_view>

#include "common/base/check.h"
#include "common/log/log.h"
#include "router/api/cors.h"

namespace tandem::router {
namespace {

constexpr Duration kDeadlineMax = std::chrono::hours(24 * 365);

bool IsLoopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

void RouterFlags::AddTo(config::ProgramOptions& options) {
  options.Add("model", "PATH", "GGUF file or model folder: its tokenizer and chat template",
              config::Text(&model));
  options.Add("alias", "NAME,...", "names the model is served under; default: the file's name",
              config::List(&alias));
  options.Add("host", "HOST", "address to listen on", config::Text(&host));
  options.Add("port", "PORT", "TCP port of the API; 0 takes a free one",
              config::Int(&port, 0, 65535));
  options.Add("port-file", "PATH", "where to write HOST:PORT once it listens",
              config::Text(&port_file));
  options.Add("admin-host", "HOST", "address of the admin port", config::Text(&admin_host));
  options.Add("admin-port", "PORT", "TCP port to see and drain nodes; 0 takes a free one, -1 none",
              config::Int(&admin_port, -1, 65535));
  options.Add("admin-port-file", "PATH", "where to write the admin port's HOST:PORT",
              config::Text(&admin_port_file));
  options.Add("prefill", "HOST:PORT,...", "prefill nodes", config::List(&prefill));
  options.Add("decode", "HOST:PORT,...", "decode nodes", config::List(&decode));
  options.Add("api-key", "KEY,...", "keys that clients must send; none: everybody may",
              config::List(&api_keys));
  options.Add("allow-public", "", "listen on a public address without keys",
              config::Switch(&allow_public));
  options.Add("deadline", "TIME",
              "of a request, from its arrival; x-request-timeout-ms asks for less",
              config::Seconds(&deadline));
  options.Add("no-pair-wait", "TIME", "how long a new request waits while no pair of nodes works",
              config::Seconds(&no_pair_wait));
  options.Add("max-body", "BYTES", "of a request's body", config::Bytes(&max_body));
  options.Add("max-bodies", "BYTES", "of all bodies together, until they are tokens; more: 503",
              config::Bytes(&max_bodies));
  options.Add("max-requests", "N", "unfinished requests; more: 429",
              config::Int(&max_requests, 1, 1 << 20));
  options.Add("max-queued", "N", "of these, waiting for a node; more: 429",
              config::Int(&max_queued, 1, 1 << 20));
  options.Add("max-connections", "N", "open client connections",
              config::Int(&max_connections, 1, 1 << 20));
  options.Add("max-connections-per-address", "N", "of these, from one address; more: 429",
              config::Int(&max_connections_per_address, 1, 1 << 20));
  options.Add("cors-origin", "ORIGIN,...",
              "web pages that may use the API, or *; none: no page may",
              config::List(&cors_origins));
  options.Add("stop-grace", "TIME", "for running requests when told to stop",
              config::Seconds(&stop_grace));
  options.Add("log-level", "LEVEL", "what is written to stderr",
              config::Choice(&log_level, log::LevelNames()));
  options.Add("progress-fd", "FD", "tell a supervisor there that the strand answers; -1: none",
              config::Int(&progress_fd, -1, 1 << 20));
}

Status RouterFlags::Validate() const {
  if (model.empty()) return InvalidArgument("--model is missing: give a GGUF file or a folder");
  if (prefill.empty()) return InvalidArgument("--prefill is missing: give HOST:PORT of a node");
  if (decode.empty()) return InvalidArgument("--decode is missing: give HOST:PORT of a node");
  for (const auto* list : {&prefill, &decode}) {
    for (const std::string& address : *list) {
      auto parsed = net::ParseHostPort(address);
      if (!parsed.ok())
        return Annotate(parsed.status(), list == &prefill ? "--prefill" : "--decode");
    }
  }
  for (const std::string& name : alias) {
    if (name.empty()) return InvalidArgument("--alias has an empty name");
  }
  for (const std::string& key : api_keys) {
    if (key.empty()) return InvalidArgument("--api-key has an empty key");
  }
  for (const std::string& origin : cors_origins) {
    TANDEM_RETURN_IF_ERROR(Annotate(CorsPolicy::CheckOrigin(origin), "--cors-origin"));
  }
  if (max_body < ByteCount(1))
    return InvalidArgument("--max-body is {}, must be positive", max_body);
  if (max_bodies < max_body) {
    return InvalidArgument("--max-bodies is {}, must be --max-body ({}) or more", max_bodies,
                           max_body);
  }
  if (deadline <= Duration::zero()) return InvalidArgument("--deadline must be positive");
  if (deadline > kDeadlineMax) return InvalidArgument("--deadline is above {} h", 24 * 365);
  if (no_pair_wait < Duration::zero() || no_pair_wait > kDeadlineMax) {
    return InvalidArgument("--no-pair-wait must lie between 0 s and {} h", 24 * 365);
  }
  if (stop_grace < Duration::zero()) return InvalidArgument("--stop-grace must not be negative");
  if (!IsLoopback(host) && api_keys.empty() && !allow_public) {
    return InvalidArgument(
        "--host is {}, which others can reach, and there is no --api-key: give a key, or "
        "--allow-public to let everybody in",
        host);
  }
  if (admin_port >= 0 && !IsLoopback(admin_host) && api_keys.empty()) {
    return InvalidArgument(
        "--admin-host is {}, which others can reach, and there is no --api-key: give a key",
        admin_host);
  }
  if (admin_port < 0 && !admin_port_file.empty()) {
    return InvalidArgument("--admin-port-file needs --admin-port");
  }
  return OkStatus();
}

std::vector<net::HostPort> Addresses(const std::vector<std::string>& texts) {
  std::vector<net::HostPort> out;
  for (const std::string& text : texts) {
    auto address = net::ParseHostPort(text);
    TANDEM_CHECK(address.ok());
    out.push_back(*std::move(address));
  }
  return out;
}

}  // namespace tandem::router
