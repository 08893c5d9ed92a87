#include "kv_transfer/ucx/endpoint.h"

#include "kv_transfer/ucx/ucx_status.h"

namespace tandem::transfer::ucx {

StatusOr<std::unique_ptr<Endpoint>> Endpoint::Open(Worker& worker, ucp_ep_params_t params) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint(worker));
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &Endpoint::OnError;
  params.err_handler.arg = endpoint.get();
  TANDEM_RETURN_IF_ERROR(FromUcs(ucp_ep_create(worker.get(), &params, &endpoint->endpoint_),
                                 "cannot create a UCX endpoint"));
  return endpoint;
}

StatusOr<std::unique_ptr<Endpoint>> Endpoint::Create(Worker& worker, const std::string& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  return Open(worker, params);
}

StatusOr<std::unique_ptr<Endpoint>> Endpoint::Dial(Worker& worker, const SocketAddress& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr = address.ucs();
  return Open(worker, params);
}

StatusOr<std::unique_ptr<Endpoint>> Endpoint::Accept(Worker& worker, ucp_conn_request_h request) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  return Open(worker, params);
}

// Only marks: anything more from inside the callback may destroy what UCX is working on.
void Endpoint::OnError(void* argument, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  static_cast<Endpoint*>(argument)->failure_ = FromUcs(status, "the peer is gone");
}

Endpoint::~Endpoint() {
  if (endpoint_ == nullptr) return;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint_, &params);
  if (!UCS_PTR_IS_PTR(request)) return;
  while (ucp_request_check_status(request) == UCS_INPROGRESS) worker_.Progress();
  ucp_request_free(request);
}

}  // namespace tandem::transfer::ucx
