#include "common/net/fd_watch.h"

#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <utility>

#include "common/net/strand_impl.h"

namespace tandem::net {

struct FdWatch::State : std::enable_shared_from_this<State> {
  using Descriptor = boost::asio::posix::stream_descriptor;

  State(const Strand& strand, int fd, std::function<void()> callback)
      : descriptor(strand.impl().executor, ::dup(fd)), readable(std::move(callback)) {}

  void Wait() {
    descriptor.async_wait(Descriptor::wait_read,
                          [self = shared_from_this()](const boost::system::error_code& error) {
                            if (error || self->readable == nullptr) return;
                            const std::function<void()> callback = self->readable;
                            callback();
                            if (self->readable != nullptr) self->Wait();
                          });
  }

  Descriptor descriptor;
  std::function<void()> readable;  // null once the watch has ended
};

FdWatch::FdWatch(const Strand& strand, int fd, std::function<void()> readable)
    : state_(std::make_shared<State>(strand, fd, std::move(readable))) {
  state_->Wait();
}

FdWatch::~FdWatch() {
  state_->readable = nullptr;
  boost::system::error_code ignored;
  state_->descriptor.close(ignored);
}

}  // namespace tandem::net
