#include "deploy/serve/local_cluster.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "common/base/cpu_list.h"
#include "common/client/openai_client.h"

namespace tandem::deploy {
namespace {

// Loading repacks the weights; large models on slow disks take minutes.
constexpr Duration kStartPatience = std::chrono::minutes(10);
constexpr Duration kHealthEvery = std::chrono::milliseconds(50);

// "http://127.0.0.1:8000" for "0.0.0.0:8000" and its like.
std::string UrlFor(std::string address) {
  if (address.starts_with("0.0.0.0:")) address.replace(0, 7, "127.0.0.1");
  if (address.starts_with("[::]:")) address.replace(0, 4, "[::1]");
  return "http://" + address;
}

// That the nodes may use.
int NumCpus() {
  const StatusOr<CpuList> cpus = AllowedCpus();
  return cpus.ok() ? static_cast<int>(cpus->size()) : 1;
}

// A TOML basic string.
std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

LocalCluster::LocalCluster(const ServeOptions& options, std::filesystem::path programs,
                           Supervisor& supervisor)
    : options_(options), programs_(std::move(programs)), supervisor_(supervisor) {
  const std::filesystem::path base = options.state_folder.empty()
                                         ? DefaultStateFolder()
                                         : std::filesystem::path(options.state_folder);
  // One folder a port, written anew by each run; clusters on free ports do not share one.
  folder_ = base / (options.port > 0 ? fmt::format("serve-{}", options.port)
                                     : fmt::format("serve-pid-{}", ::getpid()));
}

std::filesystem::path LocalCluster::PortFile(const std::string& name) const {
  return folder_ / (name + ".port");
}

std::vector<std::string> LocalCluster::NodeArguments(const std::string& role,
                                                     const std::string& name,
                                                     const std::string& listen) const {
  std::vector<std::string> arguments = {
      (programs_ / ("tandem-" + role)).string(),
      "--model",
      options_.model,
      "--name",
      name,
      "--listen",
      listen,
      "--port-file",
      PortFile(name).string(),
      "--kv-memory",
      fmt::format("{}", options_.kv_memory),
      "--kv-transport",
      options_.kv_transport,
      "--log-level",
      options_.log_level,
  };
  const auto add = [&](const char* flag, std::string value) {
    arguments.insert(arguments.end(), {flag, std::move(value)});
  };
  if (options_.threads > 0) add("--threads", std::to_string(options_.threads));
  if (!options_.cpus.empty()) add("--cpus", options_.cpus);
  if (options_.TakeTurns(NumCpus())) add("--core-group", fmt::format("serve-{}", ::getpid()));
  if (options_.context > 0) add("--context", std::to_string(options_.context));
  if (options_.numerics != "auto") add("--numerics", options_.numerics);
  if (options_.weights_cache != "auto") add("--weights-cache", options_.weights_cache);
  return arguments;
}

Status LocalCluster::StartNode(const std::string& role, int index) {
  const std::string name = fmt::format("{}-{}", role, index);
  std::filesystem::remove(PortFile(name));
  return supervisor_.Start({.name = name,
                            .arguments = NodeArguments(role, name, "127.0.0.1:0"),
                            .log = folder_ / (name + ".log"),
                            .tells_progress = true});
}

StatusOr<std::vector<std::string>> LocalCluster::AwaitNodes(const std::string& role, int count,
                                                            Deadline deadline) {
  std::vector<std::string> addresses;
  for (int i = 0; i < count; ++i) {
    const std::string name = fmt::format("{}-{}", role, i);
    TANDEM_ASSIGN_OR_RETURN(std::string address,
                            supervisor_.AwaitFirstLine(PortFile(name), deadline));
    // The router goes on dialing this address: another life must be found there.
    supervisor_.SetArguments(name, NodeArguments(role, name, address));
    addresses.push_back(std::move(address));
  }
  return addresses;
}

// A file that only its owner may read: a key on the command line is everybody's to see.
Status LocalCluster::WriteRouterConfig(int port) const {
  const std::filesystem::path file = folder_ / "router.toml";
  std::filesystem::remove(file);
  const mode_t mask = ::umask(0077);
  std::ofstream out(file);
  ::umask(mask);
  out << "model = " << Quoted(options_.model) << "\n"
      << "alias = " << Quoted(options_.ModelId()) << "\n"
      << "host = " << Quoted(options_.host) << "\n"
      << "port = " << port << "\n"
      << "prefill = " << Quoted(fmt::format("{}", fmt::join(prefill_, ","))) << "\n"
      << "decode = " << Quoted(fmt::format("{}", fmt::join(decode_, ","))) << "\n"
      << "port-file = " << Quoted(PortFile("router").string()) << "\n"
      << "admin-port = 0\n"
      << "admin-port-file = " << Quoted((folder_ / "admin.port").string()) << "\n"
      << "log-level = " << Quoted(options_.log_level) << "\n";
  if (!options_.api_key.empty()) out << "api-key = " << Quoted(options_.api_key) << "\n";
  if (options_.allow_public) out << "allow-public = true\n";
  if (!out.flush()) return Unavailable("cannot write {}", file.string());
  return OkStatus();
}

Status LocalCluster::StartRouter(Deadline deadline) {
  TANDEM_RETURN_IF_ERROR(WriteRouterConfig(options_.port));
  std::filesystem::remove(PortFile("router"));
  std::filesystem::remove(folder_ / "admin.port");
  TANDEM_RETURN_IF_ERROR(
      supervisor_.Start({.name = "router",
                         .arguments = {(programs_ / "tandem-router").string(), "--config",
                                       (folder_ / "router.toml").string()},
                         .log = folder_ / "router.log",
                         .tells_progress = true}));
  TANDEM_ASSIGN_OR_RETURN(std::string address,
                          supervisor_.AwaitFirstLine(PortFile("router"), deadline));
  if (options_.port == 0) {  // another life listens where clients have found this one
    const std::size_t colon = address.rfind(':');
    TANDEM_RETURN_IF_ERROR(WriteRouterConfig(std::atoi(address.c_str() + colon + 1)));
  }
  url_ = UrlFor(std::move(address));
  return OkStatus();
}

Status LocalCluster::AwaitHealth(Deadline deadline) {
  client::HttpClient::Options client_options{.base_url = url_, .api_key = options_.api_key};
  TANDEM_ASSIGN_OR_RETURN(auto client, client::OpenAiClient::Create(std::move(client_options)));
  while (true) {
    if (auto healthy = client->Healthy(); healthy.ok() && *healthy) return OkStatus();
    if (deadline.Passed(SteadyNow())) {
      return DeadlineExceeded("the router did not become healthy in {} s; its log is {}",
                              ToSeconds(kStartPatience), (folder_ / "router.log").string());
    }
    const Supervisor::Event event = supervisor_.Wait(Deadline::After(SteadyNow(), kHealthEvery));
    if (event.what == Supervisor::What::kStopSignal) return Cancelled("stopped by the user");
    if (event.what == Supervisor::What::kChildEnded) return Supervisor::Report(event);
  }
}

Status LocalCluster::Start(const std::function<void(const std::string&)>& progress) {
  std::error_code bad;
  std::filesystem::create_directories(folder_, bad);
  if (bad) {
    return Unavailable("cannot create {} for logs: {}; give --state-folder PATH", folder_.string(),
                       bad.message());
  }
  progress(fmt::format("starting {} prefill and {} decode node(s); logs are in {}",
                       options_.num_prefill, options_.num_decode, folder_.string()));
  for (int i = 0; i < options_.num_prefill; ++i) TANDEM_RETURN_IF_ERROR(StartNode("prefill", i));
  for (int i = 0; i < options_.num_decode; ++i) TANDEM_RETURN_IF_ERROR(StartNode("decode", i));
  const Deadline deadline = Deadline::After(SteadyNow(), kStartPatience);
  TANDEM_ASSIGN_OR_RETURN(prefill_, AwaitNodes("prefill", options_.num_prefill, deadline));
  TANDEM_ASSIGN_OR_RETURN(decode_, AwaitNodes("decode", options_.num_decode, deadline));
  progress("nodes have loaded the model; starting the router");
  TANDEM_RETURN_IF_ERROR(StartRouter(deadline));
  TANDEM_RETURN_IF_ERROR(AwaitHealth(deadline));
  supervisor_.KeepAlive();
  return OkStatus();
}

}  // namespace tandem::deploy
