// Sends active messages on one endpoint, eagerly, and keeps each one's header until it is sent
// (UCX 1.13 reads it late). Owned by the worker's thread.
#pragma once

#include <ucp/api/ucp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "kv_transfer/ucx/endpoint.h"

namespace tandem::transfer::ucx {

class AmSender {
 public:
  // Called once a message's bytes are out of the caller's memory, or will never be read: from Send,
  // from the worker's progress, or from the destructor. Must not send.
  using DoneFn = std::function<void(const Status&)>;

  AmSender(Worker& worker, std::unique_ptr<Endpoint> endpoint)
      : worker_(worker), endpoint_(std::move(endpoint)) {}
  // Closes the endpoint; every message is done on return.
  ~AmSender();
  AmSender(const AmSender&) = delete;
  AmSender& operator=(const AmSender&) = delete;

  // The memory `data` points to stays until `done`. Requires: the endpoint has not failed.
  void Send(unsigned id, std::string header, std::vector<ucp_dt_iov_t> data, DoneFn done);
  const Status& failure() const { return endpoint_->failure(); }
  ucp_ep_h endpoint() const { return endpoint_->get(); }
  std::size_t outstanding() const { return outstanding_; }

 private:
  struct Operation {
    AmSender* sender;
    std::string header;
    std::vector<ucp_dt_iov_t> data;
    DoneFn done;
  };
  static void OnSent(void* request, ucs_status_t status, void* argument);
  void Finish(Operation* operation, ucs_status_t status);

  Worker& worker_;
  std::unique_ptr<Endpoint> endpoint_;
  std::size_t outstanding_ = 0;
};

}  // namespace tandem::transfer::ucx
