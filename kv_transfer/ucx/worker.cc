#include "kv_transfer/ucx/worker.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kv_transfer/ucx/ucx_status.h"

namespace tandem::transfer::ucx {

StatusOr<std::unique_ptr<Worker>> Worker::Create(const Context::Options& options) {
  TANDEM_ASSIGN_OR_RETURN(Context context, Context::Create(options));
  std::unique_ptr<Worker> worker(new Worker(std::move(context)));
  TANDEM_RETURN_IF_ERROR(worker->Open());
  return worker;
}

Status Worker::Open() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // made by one thread, handed to another
  TANDEM_RETURN_IF_ERROR(
      FromUcs(ucp_worker_create(context_.get(), &params, &worker_), "cannot create a UCX worker"));
  int event_fd = -1;
  TANDEM_RETURN_IF_ERROR(FromUcs(ucp_worker_get_efd(worker_, &event_fd),
                                 "cannot get the UCX worker's event descriptor"));
  epoll_ = ScopedFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return Unavailable("epoll_create1: {}", std::strerror(errno));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = event_fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_fd, &event) != 0) {
    return Unavailable("epoll_ctl: {}", std::strerror(errno));
  }
  return OkStatus();
}

Worker::~Worker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
}

StatusOr<std::string> Worker::Address() const {
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  TANDEM_RETURN_IF_ERROR(FromUcs(ucp_worker_get_address(worker_, &address, &length),
                                 "cannot get the UCX worker's address"));
  std::string bytes(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(worker_, address);
  return bytes;
}

Status Worker::SetHandler(unsigned id, ucp_am_recv_callback_t handler, void* argument) {
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = id;
  params.flags = UCP_AM_FLAG_WHOLE_MSG;
  params.cb = handler;
  params.arg = argument;
  return FromUcs(ucp_worker_set_am_recv_handler(worker_, &params),
                 "cannot set a handler of active messages");
}

bool Worker::Progress() { return ucp_worker_progress(worker_) != 0; }

void Worker::Sleep(Time until) {
  if (woken_.exchange(false)) return;
  // BUSY: something came since the last progress, a signal of Wake included.
  if (ucp_worker_arm(worker_) != UCS_OK) return;
  const Duration left = std::max(until - SteadyNow(), Duration::zero());
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  std::array<epoll_event, 8> events;
  ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), static_cast<int>(ms));
}

void Worker::Wake() {
  if (!woken_.exchange(true)) ucp_worker_signal(worker_);
}

Status Worker::WatchFd(int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;  // a dead process stays readable
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return Unavailable("epoll_ctl: {}", std::strerror(errno));
  }
  return OkStatus();
}

void Worker::UnwatchFd(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

}  // namespace tandem::transfer::ucx
