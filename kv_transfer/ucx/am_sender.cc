#include "kv_transfer/ucx/am_sender.h"

#include <utility>

#include "kv_transfer/ucx/ucx_status.h"

namespace tandem::transfer::ucx {

AmSender::~AmSender() {
  endpoint_.reset();
  while (outstanding_ > 0) worker_.Progress();
}

void AmSender::Send(unsigned id, std::string header, std::vector<ucp_dt_iov_t> data, DoneFn done) {
  auto* operation = new Operation{this, std::move(header), std::move(data), std::move(done)};
  ++outstanding_;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
  params.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;
  params.cb.send = &AmSender::OnSent;
  params.user_data = operation;
  const void* buffer = nullptr;
  std::size_t count = 0;
  if (operation->data.size() > 1) {
    params.datatype = ucp_dt_make_iov();
    buffer = operation->data.data();
    count = operation->data.size();
  } else {
    params.datatype = ucp_dt_make_contig(1);
    if (!operation->data.empty()) {
      buffer = operation->data.front().buffer;
      count = operation->data.front().length;
    }
  }
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(endpoint_->get(), id, operation->header.data(), operation->header.size(),
                      buffer, count, &params);
  if (!UCS_PTR_IS_PTR(request)) Finish(operation, UCS_PTR_STATUS(request));
}

void AmSender::OnSent(void* request, ucs_status_t status, void* argument) {
  auto* operation = static_cast<Operation*>(argument);
  operation->sender->Finish(operation, status);
  ucp_request_free(request);
}

void AmSender::Finish(Operation* operation, ucs_status_t status) {
  const std::unique_ptr<Operation> owned(operation);
  --outstanding_;
  if (owned->done) owned->done(FromUcs(status, "an active message was not sent"));
}

}  // namespace tandem::transfer::ucx
