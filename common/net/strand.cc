#include "common/net/strand.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "common/base/mutex.h"
#include "common/net/strand_impl.h"

namespace tandem::net {

Strand::Strand(IoThreads& io) : impl_(std::make_shared<Impl>(io.context())) {}

void Strand::Post(Closure closure) const { boost::asio::post(impl_->executor, std::move(closure)); }

void Strand::Run(const std::function<void()>& what) const {
  Notification done;
  Post([&] {
    what();
    done.Notify();
  });
  done.WaitForNotification();
}

bool Strand::RunsHere() const { return impl_->executor.running_in_this_thread(); }

struct Timer::State {
  explicit State(const Strand& strand) : timer(strand.impl().executor) {}
  boost::asio::steady_timer timer;
  Closure closure;
  std::uint64_t generation = 0;  // of what was set last; an older wait does nothing
};

Timer::Timer(const Strand& strand) : state_(std::make_shared<State>(strand)) {}

Timer::~Timer() { Cancel(); }

void Timer::Set(Time at, Closure closure) {
  Cancel();
  if (at == kNever) return;
  state_->closure = std::move(closure);
  state_->timer.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(at));
  state_->timer.async_wait(
      [state = state_, generation = state_->generation](const boost::system::error_code&) {
        if (state->generation != generation) return;
        // Moved out first: the closure may set or destroy the timer.
        Closure closure = std::exchange(state->closure, Closure());
        ++state->generation;
        closure();
      });
}

void Timer::Cancel() {
  ++state_->generation;
  state_->closure = Closure();
  state_->timer.cancel();
}

}  // namespace tandem::net
