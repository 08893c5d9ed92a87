#include "tests/integration/transfer/peer.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "kv_transfer/create.h"
#include "tests/integration/transfer/event_log.h"

extern char** environ;

namespace tandem::transfer {
namespace {

constexpr std::string_view kFlag = "--transfer-peer=";

// The words of a message; the last may hold anything.
std::string TakeWord(std::string_view& text) {
  const std::size_t space = std::min(text.find(' '), text.size());
  std::string word(text.substr(0, space));
  text.remove_prefix(std::min(space + 1, text.size()));
  return word;
}

std::uint64_t Number(const std::string& word) {
  std::uint64_t number = 0;
  TANDEM_CHECK(std::from_chars(word.data(), word.data() + word.size(), number).ec == std::errc());
  return number;
}

class PeerEnd {
 public:
  std::string Handle(std::string_view text) {
    const std::string verb = TakeWord(text);
    if (verb == "sink") return StartSink(text);
    if (verb == "source") return StartSource(text);
    if (verb == "expect") {
      const SinkRange all{kPeerRegion, 0, kPeerBytes};
      return Text(sink_->Expect(PeerTicket(Number(TakeWord(text))), {&all, 1}));
    }
    if (verb == "forget") {
      sink_->Forget(PeerTicket(Number(TakeWord(text))));
      return sink_events_.Wait<Forgotten>().has_value() ? "ok" : "no event";
    }
    if (verb == "sum") return std::to_string(ByteSum(sink_->memory(kPeerRegion)));
    if (verb == "clear") {
      std::memset(sink_->memory(kPeerRegion).data(), 0, kPeerBytes);
      return "ok";
    }
    if (verb == "stats") {
      return fmt::format("{} {}", sink_->stats().received, sink_->stats().dropped);
    }
    if (verb == "fds") {
      const std::filesystem::directory_iterator list("/proc/self/fd");
      return std::to_string(std::distance(begin(list), end(list)));
    }
    if (verb == "flood") return Flood(PeerTicket(Number(TakeWord(text))));
    if (verb == "abort") return Abort(PeerTicket(Number(TakeWord(text))));
    return "what?";
  }
  ~PeerEnd() {
    stop_ = true;
    if (flood_.joinable()) flood_.join();
    link_.reset();
  }

 private:
  static std::string Text(const Status& status) {
    return status.ok() ? "ok" : std::string(FromAbsl(status.message()));
  }

  std::string StartSink(std::string_view text) {
    SinkOptions options;
    options.transport = *ParseTransport(TakeWord(text));
    options.incarnation = Number(TakeWord(text));
    if (!text.empty()) options.shm_directory = text;
    options.regions = {{kPeerRegion, ByteCount(kPeerBytes)}};
    options.net_device = "lo";
    auto sink = CreateSink(options, sink_events_.Sink());
    if (!sink.ok()) return {};
    sink_ = *std::move(sink);
    return Encode(sink_->descriptor());
  }

  std::string StartSource(std::string_view text) {
    SourceOptions options;
    options.transport = *ParseTransport(TakeWord(text));
    memory_.assign(kPeerBytes, std::byte{0xab});
    options.memory = memory_;
    options.net_device = "lo";
    auto source = CreateSource(options, source_events_.Sink());
    if (!source.ok()) return Text(source.status());
    source_ = *std::move(source);
    auto link = source_->Connect(LinkId(1), DecodeSink(text));
    if (!link.ok()) return Text(link.status());
    link_ = *std::move(link);
    return source_events_.Wait<LinkReady>().has_value() ? "ready" : "no event";
  }

  std::string Flood(const Ticket& ticket) {
    flood_ = std::thread([this, ticket] {
      const Write all{0, kPeerRegion, 0, kPeerBytes};
      while (!stop_) {
        if (link_->stats().queued < ByteCount(8 * kPeerBytes)) {
          const Status put = link_->Put(ticket, {&all, 1});
          if (put.code() == absl::StatusCode::kUnavailable) return;
        }
      }
    });
    return "ok";
  }
  std::string Abort(const Ticket& ticket) {
    stop_ = true;
    flood_.join();
    link_->Abort(ticket);
    return source_events_.Wait<Drained>().has_value() ? "drained" : "no event";
  }

  EventLog<SinkEvent> sink_events_;
  EventLog<SourceEvent> source_events_;
  std::unique_ptr<Sink> sink_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<SourceLink> link_;
  std::atomic<bool> stop_{false};
  std::thread flood_;
};

}  // namespace

std::uint64_t ByteSum(std::span<const std::byte> bytes) {
  return std::accumulate(
      bytes.begin(), bytes.end(), std::uint64_t{0},
      [](std::uint64_t sum, std::byte b) { return sum * 31 + static_cast<std::uint64_t>(b); });
}

Peer::Peer() : Peer(Pipe::Pair()) {}

Peer::Peer(std::pair<Pipe, Pipe> pipes) : pipe_(std::move(pipes.first)) {
  // The parent's end must not live on in this peer or in others.
  ::fcntl(pipe_.fd(), F_SETFD, FD_CLOEXEC);
  const std::string self = "/proc/self/exe";
  std::string flag = std::string(kFlag) + std::to_string(pipes.second.fd());
  char* arguments[] = {const_cast<char*>(self.c_str()), flag.data(), nullptr};
  TANDEM_CHECK(::posix_spawn(&pid_, self.c_str(), nullptr, nullptr, arguments, environ) == 0);
}

Peer::~Peer() {
  if (pid_ > 0) Kill();
}

void Peer::Signal(int signal) { ::kill(pid_, signal); }

void Peer::Kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

SinkDescriptor Peer::StartSink(Transport transport, std::uint64_t incarnation,
                               std::string_view shm_directory) {
  const std::string answer =
      Ask(fmt::format("sink {} {} {}", ToString(transport), incarnation, shm_directory));
  TANDEM_CHECK(!answer.empty());
  return DecodeSink(answer);
}

std::optional<int> RunAsPeer(int argc, char** argv) {
  if (argc != 2 || !std::string_view(argv[1]).starts_with(kFlag)) return std::nullopt;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Pipe pipe(ScopedFd(std::atoi(argv[1] + kFlag.size())));
  PeerEnd end;
  std::string text;
  while (pipe.Receive(text)) {
    if (!pipe.Send(end.Handle(text))) break;
  }
  return 0;
}

}  // namespace tandem::transfer
