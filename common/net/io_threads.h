// Threads that run sockets, timers and the closures of strands.
//
// Heavy Asio headers stay out of here: include <boost/asio/io_context.hpp> where context() is used.
// Thread-safe.
#pragma once

#include <memory>

namespace boost::asio {
class io_context;
}

namespace tandem::net {

class IoThreads {
 public:
  // Starts the threads, which wait for work until Stop(). Requires: num_threads > 0.
  explicit IoThreads(int num_threads);
  // Calls Stop().
  ~IoThreads();
  IoThreads(const IoThreads&) = delete;
  IoThreads& operator=(const IoThreads&) = delete;

  boost::asio::io_context& context();

  // Starts no further handler, waits for those that run and joins the threads. What was posted and
  // has not run is destroyed with this object. Close what needs an orderly end before.
  // Requires: not called from one of the threads.
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::net
