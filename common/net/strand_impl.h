// The Asio strand behind a Strand; for sources that post socket handlers to it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>

#include "common/net/strand.h"

namespace tandem::net {

struct Strand::Impl {
  explicit Impl(boost::asio::io_context& context) : executor(context.get_executor()) {}
  boost::asio::strand<boost::asio::io_context::executor_type> executor;
};

}  // namespace tandem::net
