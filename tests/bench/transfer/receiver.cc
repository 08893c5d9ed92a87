#include "tests/bench/transfer/receiver.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "kv_transfer/create.h"

namespace tandem::transfer::bench {

Receiver::Receiver(const std::function<void(Pipe)>& body) : Receiver(Pipe::Pair(), body) {}

Receiver::Receiver(std::pair<Pipe, Pipe> pipes, const std::function<void(Pipe)>& body)
    : pipe_(std::move(pipes.first)) {
  pid_ = ::fork();
  TANDEM_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    body(std::move(pipes.second));
    ::_exit(0);
  }
}

Receiver::~Receiver() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void ServeSink(Transport transport, std::uint64_t bytes, const UcxSettings& settings, Pipe pipe) {
  SinkOptions options;
  options.transport = transport;
  options.regions = {{kBenchRegion, ByteCount(static_cast<std::int64_t>(bytes))}};
  options.incarnation = 1;
  options.net_device = "lo";
  options.ucx_settings = settings;
  auto sink = CreateSink(options, [](const SinkEvent&) {});
  if (!sink.ok()) {
    fmt::print(stderr, "{}\n", FromAbsl(sink.status().message()));
    return;
  }
  std::memset((*sink)->memory(kBenchRegion).data(), 1, bytes);
  const SinkRange all{kBenchRegion, 0, bytes};
  TANDEM_CHECK((*sink)->Expect(kBenchTicket, {&all, 1}).ok());
  std::string text = Encode((*sink)->descriptor());
  while (pipe.Send(text) && pipe.Receive(text)) text = "ok";
}

}  // namespace tandem::transfer::bench
