// The whole of it in one process, for ThreadSanitizer above all: router, one prefill node, one
// decode node over loopback, with streams that must be those of the undisturbed engine whatever is
// lost, restarted, drained or cancelled meanwhile.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/metrics/registry.h"
#include "decode_node/decode_service.h"
#include "kv_transfer/loopback/hub.h"
#include "prefill_node/prefill_service.h"
#include "router/router_service.h"
#include "tests/integration/engine/rig.h"
#include "tests/integration/nodes/small_model.h"

namespace tandem::testing {
namespace {

using decode_node::DecodeService;
using prefill_node::PrefillService;

constexpr kv::BlockCount kBlocks{160};
constexpr std::size_t kStreams = 6;
constexpr std::size_t kPrompts = 8;

std::vector<RigRequest> MakePrompts(std::uint64_t seed) {
  SplitMix64 random(seed);
  const auto vocab = static_cast<std::uint64_t>(SmallModel().model->config().vocab_size);
  std::vector<RigRequest> prompts(kPrompts);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    RigRequest& prompt = prompts[i];
    prompt.prompt.resize(1 + random.Below(90));
    for (TokenId& token : prompt.prompt) {
      token = TokenId(static_cast<std::int32_t>(random.Below(vocab)));
    }
    prompt.params.temperature = i % 2 == 0 ? 0.0f : 0.9f;
    prompt.params.seed = random.Next();
    prompt.params.max_tokens = TokenCount(static_cast<std::int32_t>(1 + random.Below(40)));
  }
  return prompts;
}

// Ends one of this process's TCP connections that go to `port`, as a network would: both ends find
// out by themselves. Which one: `choice`.
void CutConnectionTo(std::uint16_t port, std::uint64_t choice) {
  std::vector<int> found;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::syscall(SYS_getpeername, fd, &peer, &size) != 0) continue;
    if (peer.sin_family == AF_INET && ntohs(peer.sin_port) == port) found.push_back(fd);
  }
  // Past the sanitizer's eyes: a descriptor that its owner closes just now is only another cut.
  if (!found.empty()) ::syscall(SYS_shutdown, found[choice % found.size()], SHUT_RDWR);
}

class Cluster {
 public:
  Cluster() : prompts_(MakePrompts(1)) {
    EngineRig rig(*SmallModel().model, {});
    for (const RigResult& result : rig.Run(prompts_, {})) expected_.push_back(result.tokens);
    StartPrefill();
    StartDecode();
    router::RouterService::Options options;
    options.prefill = {prefill_->address()};
    options.decode = {decode_->address()};
    options.core.incarnation = handoff::Incarnation(77);
    options.rpc = rpc_;
    options.model_context = TokenCount(kSmallContext);
    router_ = std::make_unique<router::RouterService>(io_, strand_, metrics_, options);
    strand_.Run([this] { router_->Start(); });
  }
  ~Cluster() {
    Notification stopped;
    strand_.Run([&] { router_->Stop(std::chrono::hours(1), [&] { stopped.Notify(); }); });
    stopped.WaitForNotification();
    strand_.Run([this] { router_->Disconnect(); });
    strand_.Run([this] { router_.reset(); });
    io_.Stop();
  }

  // Streams go on, one request after the other, until told to end.
  void StartStreams() {
    for (std::size_t i = 0; i < kStreams; ++i) Next(i);
  }
  void EndStreams() {
    MutexLock lock(mutex_);
    ending_ = true;
    mutex_.Await([this] { return running_ == 0; });
  }
  // Until every stream has finished what it runs now and one request more: no request sees more
  // than two faults.
  void AwaitProgress() {
    MutexLock lock(mutex_);
    const auto before = finished_;
    mutex_.Await([&] {
      for (std::size_t i = 0; i < kStreams; ++i) {
        if (finished_[i] < before[i] + 2) return false;
      }
      return true;
    });
  }
  // Cancels what stream `i` runs now, if anything.
  void CancelOne(std::size_t i) {
    strand_.Run([&] {
      MutexLock lock(mutex_);
      if (!current_[i].has_value()) return;
      cancelled_[i] = true;
      const handoff::RequestId request = *current_[i];
      strand_.Post([this, request] { router_->ClientGone(request); });
    });
  }
  void CutPrefill(std::uint64_t choice) { CutConnectionTo(prefill_->address().port, choice); }
  void CutDecode(std::uint64_t choice) { CutConnectionTo(decode_->address().port, choice); }
  void RestartPrefill() {
    prefill_.reset();
    StartPrefill();
  }
  void RestartDecode() {
    decode_.reset();
    StartDecode();
  }
  void DrainPrefill(Duration budget) {
    Drain(*prefill_, budget);
    RestartPrefill();
  }
  void DrainDecode(Duration budget) {
    Drain(*decode_, budget);
    RestartDecode();
  }
  // Until both nodes' books are empty.
  void AwaitIdle() {
    for (worker::NodeService* node : {static_cast<worker::NodeService*>(prefill_.get()),
                                      static_cast<worker::NodeService*>(decode_.get())}) {
      while (true) {
        const std::string report = " " + node->Report() + " ";
        bool idle = true;
        for (const char* zero : {" used_blocks=0 ", " leases=0 ", " pending_transfers=0 "}) {
          idle = idle && report.find(zero) != std::string::npos;
        }
        if (idle) break;
        std::this_thread::yield();
      }
    }
  }
  int wrong() {
    MutexLock lock(mutex_);
    return wrong_;
  }

 private:
  class Stream final : public router::GenerationSink {
   public:
    Stream(Cluster& cluster, std::size_t index, std::size_t prompt)
        : cluster_(cluster), index_(index), prompt_(prompt) {}
    void OnTokens(Position first, std::span<const TokenId> tokens) override {
      in_order_ = in_order_ && first.value() == static_cast<std::int32_t>(tokens_.size());
      tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    }
    void OnFinished(const Status& status, sequence::FinishReason, const router::Bill&) override {
      cluster_.Finished(index_, prompt_, status, in_order_, tokens_);
    }

   private:
    Cluster& cluster_;
    const std::size_t index_;
    const std::size_t prompt_;
    bool in_order_ = true;
    TokenIds tokens_;
  };

  static void Drain(worker::NodeService& node, Duration budget) {
    Notification drained;
    node.WatchDrain({.begun = {}, .drained = [&] { drained.Notify(); }});
    node.BeginDrain(budget);
    drained.WaitForNotification();
  }

  // Starts the next request of stream `i`. Any thread.
  void Next(std::size_t i) {
    {
      MutexLock lock(mutex_);
      ++running_;
    }
    strand_.Post([this, i] {
      std::size_t prompt = 0;
      {
        MutexLock lock(mutex_);
        prompt = next_prompt_++ % kPrompts;
      }
      router::Generation generation;
      generation.tokens = std::make_shared<const TokenIds>(prompts_[prompt].prompt);
      generation.params = prompts_[prompt].params;
      auto request =
          router_->Submit(std::move(generation), std::make_shared<Stream>(*this, i, prompt));
      MutexLock lock(mutex_);
      if (request.ok()) {
        current_[i] = *request;
        cancelled_[i] = false;
        return;
      }
      // No node has connected yet.
      --running_;
      if (!ending_) retry_.Set(SteadyNow() + std::chrono::milliseconds(5), [this] { Again(); });
      idle_[i] = true;
    });
  }
  void Again() {
    for (std::size_t i = 0; i < kStreams; ++i) {
      bool idle = false;
      {
        MutexLock lock(mutex_);
        idle = std::exchange(idle_[i], false) && !ending_;
      }
      if (idle) Next(i);
    }
  }
  void Finished(std::size_t i, std::size_t prompt, const Status& status, bool in_order,
                const TokenIds& tokens) {
    {
      MutexLock lock(mutex_);
      const bool cancelled = cancelled_[i] && !status.ok();
      if (!cancelled) {
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_EQ(tokens, expected_[prompt]);
        if (!status.ok() || tokens != expected_[prompt]) ++wrong_;
      }
      EXPECT_TRUE(in_order);
      current_[i].reset();
      ++finished_[i];
      --running_;
      if (ending_) return;
    }
    Next(i);
  }

  void StartPrefill() {
    PrefillService::Options options;
    options.name = "prefill-0";
    options.listen.port = prefill_port_;
    options.num_blocks = kBlocks;
    options.max_context = TokenCount(kSmallContext);
    options.step_tokens = TokenCount(64);
    options.threads = 1;
    options.hub = hub_;
    options.rpc = rpc_;
    auto service = PrefillService::Start(*SmallModel().model, SmallModel().instance, options);
    if (!service.ok()) Fail(service.status());
    prefill_ = *std::move(service);
    prefill_port_ = prefill_->address().port;
  }
  void StartDecode() {
    DecodeService::Options options;
    options.name = "decode-0";
    options.listen.port = decode_port_;
    options.num_blocks = kBlocks;
    options.max_context = TokenCount(kSmallContext);
    options.threads = 1;
    options.transport = transfer::Transport::kLoopback;
    options.hub = hub_;
    options.rpc = rpc_;
    auto service = DecodeService::Start(*SmallModel().model, SmallModel().instance, options);
    if (!service.ok()) Fail(service.status());
    decode_ = *std::move(service);
    decode_port_ = decode_->address().port;
  }
  [[noreturn]] static void Fail(const Status& status) {
    fmt::print(stderr, "{}\n", FromAbsl(status.message()));
    std::abort();
  }

  const rpc::Options rpc_{.heartbeat_every = std::chrono::milliseconds(20),
                          // Sanitizers are slow: silence is no fault of this test.
                          .silence_limit = std::chrono::minutes(5)};
  const std::vector<RigRequest> prompts_;
  std::vector<TokenIds> expected_;
  std::shared_ptr<transfer::loopback::Hub> hub_ = transfer::loopback::MakeHub();
  std::uint16_t prefill_port_ = 0, decode_port_ = 0;
  std::unique_ptr<DecodeService> decode_;  // goes after the source that writes to it
  std::unique_ptr<PrefillService> prefill_;
  metrics::Registry metrics_;
  net::IoThreads io_{1};
  net::Strand strand_{io_};
  std::unique_ptr<router::RouterService> router_;
  net::Timer retry_{strand_};

  Mutex mutex_;
  std::size_t next_prompt_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  int wrong_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<std::size_t, kStreams> finished_ ABSL_GUARDED_BY(mutex_){};
  std::array<bool, kStreams> cancelled_ ABSL_GUARDED_BY(mutex_){};
  std::array<bool, kStreams> idle_ ABSL_GUARDED_BY(mutex_){};
  std::array<std::optional<handoff::RequestId>, kStreams> current_ ABSL_GUARDED_BY(mutex_){};
};

TEST(Cluster, StreamsSurviveLossesRestartsDrainsAndCancels) {
  Cluster cluster;
  cluster.StartStreams();
  cluster.AwaitProgress();
  SplitMix64 random(7);
  for (int round = 0; round < 2; ++round) {
    const std::array<std::function<void()>, 8> faults = {
        [&] { cluster.CutPrefill(random.Next()); },
        [&] { cluster.CutDecode(random.Next()); },  // from the router or from the prefill node
        [&] { cluster.CutDecode(random.Next()); },
        [&] { cluster.RestartPrefill(); },
        [&] { cluster.RestartDecode(); },
        [&] { cluster.CancelOne(random.Below(kStreams)); },
        [&] { cluster.DrainPrefill(std::chrono::minutes(5)); },
        [&] { cluster.DrainDecode(Duration(0)); },
    };
    for (const auto& fault : faults) {
      fault();
      cluster.AwaitProgress();
    }
  }
  cluster.EndStreams();
  cluster.AwaitIdle();
  EXPECT_EQ(cluster.wrong(), 0);
}

}  // namespace
}  // namespace tandem::testing
