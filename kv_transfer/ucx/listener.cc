#include "kv_transfer/ucx/listener.h"

#include <utility>

#include "kv_transfer/ucx/ucx_status.h"

namespace tandem::transfer::ucx {

StatusOr<std::unique_ptr<Listener>> Listener::Create(Worker& worker, const SocketAddress& address) {
  std::unique_ptr<Listener> listener(new Listener(address));
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr = address.ucs();
  params.conn_handler.cb = &Listener::OnRequest;
  params.conn_handler.arg = listener.get();
  TANDEM_RETURN_IF_ERROR(
      FromUcs(ucp_listener_create(worker.get(), &params, &listener->listener_),
              fmt::format("cannot listen for KV transfers on {}", address.ToString())));
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  TANDEM_RETURN_IF_ERROR(
      FromUcs(ucp_listener_query(listener->listener_, &attributes), "cannot query the listener"));
  listener->address_.set_port(SocketAddress::FromStorage(attributes.sockaddr).port());
  return listener;
}

Listener::~Listener() {
  if (listener_ == nullptr) return;
  for (ucp_conn_request_h request : requests_) ucp_listener_reject(listener_, request);
  ucp_listener_destroy(listener_);
}

std::vector<ucp_conn_request_h> Listener::TakeRequests() { return std::exchange(requests_, {}); }

void Listener::Reject(ucp_conn_request_h request) { ucp_listener_reject(listener_, request); }

// Runs inside progress: the endpoint is made later.
void Listener::OnRequest(ucp_conn_request_h request, void* argument) {
  static_cast<Listener*>(argument)->requests_.push_back(request);
}

}  // namespace tandem::transfer::ucx
