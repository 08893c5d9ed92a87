#include "common/net/io_threads.h"

#include <pthread.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>
#include <vector>

#include "common/base/check.h"

namespace tandem::net {

struct IoThreads::Impl {
  explicit Impl(int num_threads) : context(num_threads), work(context.get_executor()) {
    threads.reserve(static_cast<std::size_t>(num_threads));
    for (int i = 0; i < num_threads; ++i) {
      threads.emplace_back([this] { context.run(); });
      ::pthread_setname_np(threads.back().native_handle(), "io");
    }
  }
  boost::asio::io_context context;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work;
  std::vector<std::thread> threads;
};

IoThreads::IoThreads(int num_threads) {
  TANDEM_CHECK(num_threads > 0);
  impl_ = std::make_unique<Impl>(num_threads);
}

IoThreads::~IoThreads() { Stop(); }

boost::asio::io_context& IoThreads::context() { return impl_->context; }

void IoThreads::Stop() {
  impl_->context.stop();
  for (std::thread& thread : impl_->threads) {
    TANDEM_CHECK(thread.get_id() != std::this_thread::get_id());
    thread.join();
  }
  impl_->threads.clear();
}

}  // namespace tandem::net
