// One ucp_ep_h in error mode PEER. Owned by its worker's thread.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "common/base/status.h"
#include "kv_transfer/ucx/socket_address.h"
#include "kv_transfer/ucx/worker.h"

namespace tandem::transfer::ucx {

class Endpoint {
 public:
  // To the worker whose address it is. Errors of all three: Unavailable, FailedPrecondition.
  static StatusOr<std::unique_ptr<Endpoint>> Create(Worker& worker, const std::string& address);
  // To a listener. Connects in the background; a refusal is a failure() later.
  static StatusOr<std::unique_ptr<Endpoint>> Dial(Worker& worker, const SocketAddress& address);
  // From a listener's request, which it consumes.
  static StatusOr<std::unique_ptr<Endpoint>> Accept(Worker& worker, ucp_conn_request_h request);
  // Closes with FORCE: every request on it has completed (most with an error) on return.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  ucp_ep_h get() const { return endpoint_; }
  // Not ok once UCX has given up on the peer; post nothing then.
  const Status& failure() const { return failure_; }

 private:
  explicit Endpoint(Worker& worker) : worker_(worker) {}
  static StatusOr<std::unique_ptr<Endpoint>> Open(Worker& worker, ucp_ep_params_t params);
  static void OnError(void* argument, ucp_ep_h endpoint, ucs_status_t status);

  Worker& worker_;
  ucp_ep_h endpoint_ = nullptr;
  Status failure_;
};

}  // namespace tandem::transfer::ucx
