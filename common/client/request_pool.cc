#include "common/client/request_pool.h"

#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <unordered_map>
#include <vector>

#include "common/base/check.h"
#include "common/base/scoped_fd.h"
#include "common/client/easy_handle.h"

namespace tandem::client {
namespace {

constexpr int kEventsPerPoll = 256;

struct PooledRequest {
  EasyHandle easy;
  std::string json;
  RequestPool::Sink* sink = nullptr;
  bool status_told = false;
  bool aborted = false;

  int HttpStatus() const {
    long code = 0;
    curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &code);
    return static_cast<int>(code);
  }
};

std::size_t OnPooledBody(char* data, std::size_t, std::size_t size, void* user) {
  auto* request = static_cast<PooledRequest*>(user);
  if (!request->status_told) {
    request->status_told = true;
    request->sink->OnStatus(request->HttpStatus());
  }
  request->aborted = !request->sink->OnBody(std::string_view(data, size));
  return request->aborted ? 0 : size;
}

RequestPool::End EndOf(CURLcode code, long system_error) {
  using End = RequestPool::End;
  switch (code) {
    case CURLE_OK:
      return End::kComplete;
    case CURLE_COULDNT_CONNECT:
      return system_error == ECONNREFUSED ? End::kRefused : End::kNoConnect;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_SSL_CONNECT_ERROR:
      return End::kNoConnect;
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
      return End::kReset;
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
      return End::kEndedEarly;
    case CURLE_OPERATION_TIMEDOUT:
      return End::kTimeout;
    default:
      return End::kOther;
  }
}

}  // namespace

struct RequestPool::State {
  Options options;
  CURLM* multi = nullptr;
  ScopedFd epoll;
  Time timer = kNever;  // when libcurl wants to be called next
  std::unordered_map<CURL*, std::unique_ptr<PooledRequest>> running;
  std::vector<std::unique_ptr<PooledRequest>> idle;  // easy handles to use again

  ~State() {
    for (auto& [easy, request] : running) curl_multi_remove_handle(multi, easy);
    running.clear();
    idle.clear();
    curl_multi_cleanup(multi);
  }

  static int OnSocket(CURL*, curl_socket_t fd, int what, void* user, void* known) {
    auto* state = static_cast<State*>(user);
    epoll_event event{};
    event.data.fd = fd;
    if ((what & CURL_POLL_IN) != 0) event.events |= EPOLLIN;
    if ((what & CURL_POLL_OUT) != 0) event.events |= EPOLLOUT;
    if (what == CURL_POLL_REMOVE) {
      ::epoll_ctl(state->epoll.get(), EPOLL_CTL_DEL, fd, nullptr);
    } else if (known != nullptr) {
      TANDEM_CHECK(::epoll_ctl(state->epoll.get(), EPOLL_CTL_MOD, fd, &event) == 0);
    } else {
      // libcurl may have closed a descriptor whose number comes back here.
      const bool added = ::epoll_ctl(state->epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
      TANDEM_CHECK(added || ::epoll_ctl(state->epoll.get(), EPOLL_CTL_MOD, fd, &event) == 0);
      curl_multi_assign(state->multi, fd, state);
    }
    return 0;
  }

  static int OnTimer(CURLM*, long timeout_ms, void* user) {
    auto* state = static_cast<State*>(user);
    state->timer = timeout_ms < 0 ? kNever : SteadyNow() + std::chrono::milliseconds(timeout_ms);
    return 0;
  }

  void Act(curl_socket_t fd, int events) {
    int still_running = 0;
    curl_multi_socket_action(multi, fd, events, &still_running);
  }

  // Tells the sinks of what has ended.
  void Reap() {
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      Finish(message->easy_handle, message->data.result);
    }
  }

  void Finish(CURL* easy, CURLcode code) {
    auto found = running.find(easy);
    TANDEM_CHECK(found != running.end());
    std::unique_ptr<PooledRequest> request = std::move(found->second);
    running.erase(found);
    Ended ended;
    ended.status = request->HttpStatus();
    if (request->aborted) {
      ended.end = End::kAborted;
    } else if (code != CURLE_OK) {
      long system_error = 0;
      curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &system_error);
      ended.end = EndOf(code, system_error);
      ended.detail = request->easy.detail();
      if (ended.detail.empty()) ended.detail = curl_easy_strerror(code);
    }
    curl_multi_remove_handle(multi, easy);
    if (!request->status_told && ended.status != 0) request->sink->OnStatus(ended.status);
    Sink* sink = request->sink;
    request->json.clear();
    idle.push_back(std::move(request));
    sink->OnEnd(ended);
  }
};

StatusOr<std::unique_ptr<RequestPool>> RequestPool::Create(Options options) {
  TANDEM_ASSIGN_OR_RETURN(options.server.base_url,
                          CheckedBaseUrl(std::move(options.server.base_url)));
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  state->epoll = ScopedFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!state->epoll.valid()) return ResourceExhausted("no file descriptor left for epoll");
  state->multi = curl_multi_init();
  TANDEM_CHECK(state->multi != nullptr);
  curl_multi_setopt(state->multi, CURLMOPT_SOCKETFUNCTION, State::OnSocket);
  curl_multi_setopt(state->multi, CURLMOPT_SOCKETDATA, state.get());
  curl_multi_setopt(state->multi, CURLMOPT_TIMERFUNCTION, State::OnTimer);
  curl_multi_setopt(state->multi, CURLMOPT_TIMERDATA, state.get());
  curl_multi_setopt(state->multi, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
  return std::unique_ptr<RequestPool>(new RequestPool(std::move(state)));
}

RequestPool::RequestPool(std::unique_ptr<State> state) : state_(std::move(state)) {}
RequestPool::~RequestPool() = default;

std::size_t RequestPool::running() const { return state_->running.size(); }

void RequestPool::Start(const std::string& path, std::string json, Sink& sink) {
  std::unique_ptr<PooledRequest> request;
  if (state_->idle.empty()) {
    request = std::make_unique<PooledRequest>();
  } else {
    request = std::move(state_->idle.back());
    state_->idle.pop_back();
    curl_easy_reset(request->easy.get());
  }
  request->json = std::move(json);
  request->sink = &sink;
  request->status_told = request->aborted = false;
  EasyHandle& easy = request->easy;
  easy.Prepare(state_->options.server, state_->options.server.base_url + path, request->json);
  easy.Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  easy.Set(CURLOPT_TCP_NODELAY, 1L);
  easy.Set(CURLOPT_WRITEFUNCTION, OnPooledBody);
  easy.Set(CURLOPT_WRITEDATA, request.get());
  if (state_->options.request_timeout > Duration::zero()) {
    easy.Set(CURLOPT_TIMEOUT_MS, static_cast<long>(ToMillis(state_->options.request_timeout)));
  }
  CURL* handle = easy.get();
  state_->running.emplace(handle, std::move(request));
  TANDEM_CHECK(curl_multi_add_handle(state_->multi, handle) == CURLM_OK);
}

void RequestPool::Poll(Time until) {
  const Time wake = std::min(until, state_->timer);
  const Duration wait = std::max(wake - SteadyNow(), Duration::zero());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(wait);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (wait - seconds).count()};
  pollfd ready{.fd = state_->epoll.get(), .events = POLLIN, .revents = 0};
  ::ppoll(&ready, 1, &timeout, nullptr);  // epoll_wait alone waits whole milliseconds

  std::array<epoll_event, kEventsPerPoll> events;
  const int count = ::epoll_wait(state_->epoll.get(), events.data(), kEventsPerPoll, 0);
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    int what = 0;
    if ((event.events & EPOLLIN) != 0) what |= CURL_CSELECT_IN;
    if ((event.events & EPOLLOUT) != 0) what |= CURL_CSELECT_OUT;
    // libcurl asks the socket itself what is wrong.
    if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) what |= CURL_CSELECT_IN | CURL_CSELECT_OUT;
    state_->Act(event.data.fd, what);
  }
  if (state_->timer <= SteadyNow()) {
    state_->timer = kNever;
    state_->Act(CURL_SOCKET_TIMEOUT, 0);
  }
  state_->Reap();
}

void RequestPool::AbortAll() {
  std::vector<CURL*> all;
  for (auto& [easy, request] : state_->running) {
    request->aborted = true;
    all.push_back(easy);
  }
  for (CURL* easy : all) state_->Finish(easy, CURLE_ABORTED_BY_CALLBACK);
}

}  // namespace tandem::client
