// One libcurl easy handle with its header list, and what all our requests set on it.
#pragma once

#include <curl/curl.h>

#include <string>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/client/http_client.h"

namespace tandem::client {

// Not copyable: libcurl keeps its address. Not thread-safe.
class EasyHandle {
 public:
  EasyHandle();
  EasyHandle(const EasyHandle&) = delete;
  EasyHandle& operator=(const EasyHandle&) = delete;
  ~EasyHandle();

  CURL* get() const { return easy_; }

  template <typename T>
  void Set(CURLoption option, T value) {
    TANDEM_CHECK(curl_easy_setopt(easy_, option, value) == CURLE_OK);
  }

  // Sets URL, time-outs, key and, when it is not empty, `json` as the body to post. `json` must
  // live until the request has ended.
  void Prepare(const HttpClient::Options& options, const std::string& url, const std::string& json);

  // libcurl's words on what went wrong; "" when it has none.
  const char* detail() const { return detail_; }

 private:
  CURL* easy_;
  curl_slist* headers_ = nullptr;
  char detail_[CURL_ERROR_SIZE] = {};
};

// Initialises libcurl, once per process, and takes the final slash and "/v1" off the URL.
// Errors: InvalidArgument for a URL that is not http or https.
StatusOr<std::string> CheckedBaseUrl(std::string url);

}  // namespace tandem::client
