// One ucp_listener_h: waits for sources on TCP. Owned by its worker's thread once made.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <vector>

#include "common/base/status.h"
#include "kv_transfer/ucx/socket_address.h"
#include "kv_transfer/ucx/worker.h"

namespace tandem::transfer::ucx {

class Listener {
 public:
  // Binds a free port of `address` (port 0). Errors: Unavailable with UCX's reason.
  static StatusOr<std::unique_ptr<Listener>> Create(Worker& worker, const SocketAddress& address);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const SocketAddress& address() const { return address_; }
  // The requests since the last call; each is to be accepted or rejected.
  std::vector<ucp_conn_request_h> TakeRequests();
  void Reject(ucp_conn_request_h request);

 private:
  explicit Listener(const SocketAddress& address) : address_(address) {}
  static void OnRequest(ucp_conn_request_h request, void* argument);

  SocketAddress address_;
  ucp_listener_h listener_ = nullptr;
  std::vector<ucp_conn_request_h> requests_;
};

}  // namespace tandem::transfer::ucx
