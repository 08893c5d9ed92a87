#include "kv_transfer/completion_thread.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace tandem::transfer {

CompletionThread::CompletionThread(std::unique_ptr<Poller> poller, Work work)
    : poller_(std::move(poller)), work_(std::move(work)), thread_([this] { Run(); }) {
  ::pthread_setname_np(thread_.native_handle(), "kv-transfer");
}

CompletionThread::~CompletionThread() { Stop(); }

void CompletionThread::Stop() {
  stop_.store(true);
  poller_->Wake();
  if (thread_.joinable()) thread_.join();
}

void CompletionThread::Run() {
  while (!stop_.load()) {
    bool worked = poller_->Progress();
    worked |= work_.step();
    if (worked) continue;
    const Time cap = SteadyNow() + std::chrono::seconds(1);
    poller_->Sleep(std::min(cap, work_.next_deadline()));
  }
  work_.finish();
}

}  // namespace tandem::transfer
