#include "deploy/serve/serve.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "common/client/openai_client.h"
#include "deploy/serve/ask.h"
#include "deploy/serve/local_cluster.h"
#include "deploy/serve/supervisor.h"

namespace tandem::deploy {
namespace {

constexpr Duration kStopPatience = std::chrono::seconds(20);

void Say(const std::string& line) { std::fprintf(stderr, "==> %s\n", line.c_str()); }

StatusOr<std::unique_ptr<client::OpenAiClient>> ClientFor(const ServeOptions& options,
                                                          const LocalCluster& cluster) {
  return client::OpenAiClient::Create({.base_url = cluster.url(), .api_key = options.api_key});
}

// Asks on a thread of its own, so that a stop signal or a child's death ends the answer.
Status AskWatched(const ServeOptions& options, const LocalCluster& cluster,
                  Supervisor& supervisor) {
  TANDEM_ASSIGN_OR_RETURN(auto client, ClientFor(options, cluster));
  ScopedFd done(::eventfd(0, EFD_CLOEXEC));
  Status answered;
  std::thread thread([&] {
    answered = Ask(*client, options.ModelId(), options.ask);
    ::eventfd_write(done.get(), 1);
  });
  const Supervisor::Event event = supervisor.Wait(Deadline(), done.get());
  if (event.what != Supervisor::What::kReadable) client->Cancel();
  thread.join();
  if (event.what == Supervisor::What::kStopSignal) return Cancelled("stopped by the user");
  if (event.what == Supervisor::What::kChildEnded) return Supervisor::Report(event);
  return answered;
}

void SayHowToUse(const ServeOptions& options, const LocalCluster& cluster) {
  const std::string key = options.api_key.empty() ? "" : " -H 'Authorization: Bearer YOUR_KEY'";
  Say(fmt::format("serving {} at {}/v1; try:", options.ModelId(), cluster.url()));
  std::fprintf(stderr,
               "\n  curl -N %s/v1/chat/completions%s -H 'Content-Type: application/json' \\\n"
               "    -d "
               "'{\"model\":\"%s\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":"
               "\"Hello!\"}]}'"
               "\n\n",
               cluster.url().c_str(), key.c_str(), options.ModelId().c_str());
  const std::string port =
      options.port == 8000 ? ""
      : options.port > 0   ? fmt::format(" --port {}", options.port)
                           : fmt::format(" --admin $(cat {}/admin.port)", cluster.logs().string());
  Say(fmt::format("`tandem get nodes{}` shows the nodes", port));
  Say(fmt::format("logs are in {}; Ctrl-C stops everything", cluster.logs().string()));
}

Status Run(const ServeOptions& options, LocalCluster& cluster, Supervisor& supervisor) {
  TANDEM_RETURN_IF_ERROR(cluster.Start(Say));
  if (!options.ask.empty()) TANDEM_RETURN_IF_ERROR(AskWatched(options, cluster, supervisor));
  if (options.once) return OkStatus();
  SayHowToUse(options, cluster);
  const Supervisor::Event event = supervisor.Wait(Deadline());
  if (event.what == Supervisor::What::kChildEnded) return Supervisor::Report(event);
  return Cancelled("stopped by the user");
}

}  // namespace

Status Serve(const ServeOptions& options, const std::filesystem::path& programs) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  Supervisor::Options watch;
  watch.restart.mode = options.restart_mode();
  watch.restart.early_deaths_max = options.give_up_after;
  watch.stuck_after = options.stuck_after;
  watch.say = Say;
  Supervisor supervisor(std::move(watch));
  LocalCluster cluster(options, programs, supervisor);
  const Status ran = Run(options, cluster, supervisor);
  Say("stopping");
  const Status stopped = supervisor.StopAll(kStopPatience);
  // A dead child is the reason to tell, not how the others ended after it.
  return ran.ok() || absl::IsCancelled(ran) ? stopped : ran;
}

}  // namespace tandem::deploy
