#include "common/client/easy_handle.h"

namespace tandem::client {

EasyHandle::EasyHandle() : easy_(curl_easy_init()) { TANDEM_CHECK(easy_ != nullptr); }

EasyHandle::~EasyHandle() {
  curl_easy_cleanup(easy_);
  curl_slist_free_all(headers_);
}

void EasyHandle::Prepare(const HttpClient::Options& options, const std::string& url,
                         const std::string& json) {
  curl_slist_free_all(headers_);
  headers_ = nullptr;
  detail_[0] = 0;
  Set(CURLOPT_URL, url.c_str());
  Set(CURLOPT_PROTOCOLS_STR, "http,https");
  Set(CURLOPT_NOSIGNAL, 1L);
  Set(CURLOPT_ERRORBUFFER, detail_);
  Set(CURLOPT_USERAGENT, "tandem");
  Set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(ToMillis(options.connect_timeout)));
  if (options.silence_timeout > Duration::zero()) {
    Set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    Set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(ToSeconds(options.silence_timeout)));
  }
  if (!options.api_key.empty()) {
    headers_ = curl_slist_append(headers_, ("Authorization: Bearer " + options.api_key).c_str());
  }
  if (!json.empty()) {
    headers_ = curl_slist_append(headers_, "Content-Type: application/json");
    headers_ = curl_slist_append(headers_, "Expect:");  // a long body is sent at once
    Set(CURLOPT_POSTFIELDS, json.c_str());
    Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json.size()));
  }
  Set(CURLOPT_HTTPHEADER, headers_);
}

StatusOr<std::string> CheckedBaseUrl(std::string url) {
  static const bool initialised = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  TANDEM_CHECK(initialised);
  if (!url.starts_with("http://") && !url.starts_with("https://")) {
    return InvalidArgument("'{}' is no server's URL; give one like http://127.0.0.1:8000", url);
  }
  while (url.ends_with('/')) url.pop_back();
  if (url.ends_with("/v1")) url.resize(url.size() - 3);
  return url;
}

}  // namespace tandem::client
