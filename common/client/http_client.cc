#include "common/client/http_client.h"

#include <curl/curl.h>

#include <atomic>

#include "common/client/easy_handle.h"

namespace tandem::client {

struct HttpClient::State {
  Options options;
  CURLM* multi = nullptr;
  std::atomic<bool> cancel{false};
  ~State() { curl_multi_cleanup(multi); }
};

namespace {

// The running request, as libcurl's callbacks see it.
struct Transfer {
  CURL* easy = nullptr;
  HttpClient::Response response;
  const std::function<Status(std::string_view)>* on_body = nullptr;
  Status refused;  // by on_body
};

constexpr std::size_t kMaxErrorBody = std::size_t{8} << 20;

std::size_t OnBody(char* data, std::size_t, std::size_t size, void* user) {
  auto* transfer = static_cast<Transfer*>(user);
  curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &transfer->response.code);
  if (transfer->on_body != nullptr && *transfer->on_body && transfer->response.code / 100 == 2) {
    transfer->refused = (*transfer->on_body)(std::string_view(data, size));
    return transfer->refused.ok() ? size : 0;
  }
  if (transfer->response.body.size() + size > kMaxErrorBody) {
    transfer->refused = ResourceExhausted("the answer is over {} bytes", kMaxErrorBody);
    return 0;
  }
  transfer->response.body.append(data, size);
  return size;
}

Status FromCurl(CURLcode code, const std::string& url, const char* detail) {
  const std::string text = detail[0] != 0 ? detail : curl_easy_strerror(code);
  if (code == CURLE_OPERATION_TIMEDOUT) return DeadlineExceeded("{}: {}", url, text);
  if (code == CURLE_COULDNT_CONNECT) {
    return Unavailable("{}: {}; is the server running, and is this its port?", url, text);
  }
  return Unavailable("{}: {}", url, text);
}

}  // namespace

StatusOr<std::unique_ptr<HttpClient>> HttpClient::Create(Options options) {
  TANDEM_ASSIGN_OR_RETURN(options.base_url, CheckedBaseUrl(std::move(options.base_url)));
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  state->multi = curl_multi_init();
  TANDEM_CHECK(state->multi != nullptr);
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(state)));
}

HttpClient::HttpClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpClient::~HttpClient() = default;

StatusOr<HttpClient::Response> HttpClient::Fetch(
    const std::string& path, const std::string& json,
    const std::function<Status(std::string_view)>& on_body) {
  const std::string url = state_->options.base_url + path;
  EasyHandle easy;
  easy.Prepare(state_->options, url, json);
  Transfer transfer{.easy = easy.get(), .response = {}, .on_body = &on_body, .refused = {}};
  easy.Set(CURLOPT_WRITEFUNCTION, OnBody);
  easy.Set(CURLOPT_WRITEDATA, &transfer);

  state_->cancel = false;
  curl_multi_add_handle(state_->multi, easy.get());
  int running = 1;
  while (running > 0 && !state_->cancel) {
    curl_multi_perform(state_->multi, &running);
    if (running > 0) curl_multi_poll(state_->multi, nullptr, 0, 1000, nullptr);
  }
  int left = 0;
  CURLcode code = CURLE_OK;
  while (CURLMsg* message = curl_multi_info_read(state_->multi, &left)) {
    if (message->msg == CURLMSG_DONE) code = message->data.result;
  }
  curl_multi_remove_handle(state_->multi, easy.get());  // closes a connection in mid-answer
  if (running > 0) return Cancelled("cancelled");
  if (!transfer.refused.ok()) return transfer.refused;
  if (code != CURLE_OK) return FromCurl(code, url, easy.detail());
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &transfer.response.code);
  const char* type = nullptr;
  curl_easy_getinfo(easy.get(), CURLINFO_CONTENT_TYPE, &type);
  if (type != nullptr) transfer.response.content_type = type;
  return std::move(transfer.response);
}

void HttpClient::Cancel() {
  state_->cancel = true;
  curl_multi_wakeup(state_->multi);
}

}  // namespace tandem::client
