#include "router/api/api_keys.h"

#include <string_view>

#include "common/base/hash128.h"

namespace tandem::router {
namespace {

// Equal digests mean equal keys, and how far two digests agree says nothing of the keys.
std::string Digest(std::string_view key) {
  auto bytes = Sha256().Update(key).Finish();
  return std::string(bytes.begin(), bytes.end());
}

std::string_view KeyOf(const net::HttpRequest& request) {
  std::string_view authorization = request.Header("authorization");
  constexpr std::string_view kBearer = "bearer ";
  if (net::ToLower(authorization.substr(0, kBearer.size())) == kBearer) {
    authorization.remove_prefix(kBearer.size());
    while (authorization.starts_with(' ')) authorization.remove_prefix(1);
    return authorization;
  }
  return request.Header("x-api-key");
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) digests_.push_back(Digest(key));
}

bool ApiKeys::Allow(const net::HttpRequest& request) const {
  if (digests_.empty()) return true;
  const std::string digest = Digest(KeyOf(request));
  bool allowed = false;
  for (const std::string& known : digests_) allowed |= digest == known;
  return allowed;
}

}  // namespace tandem::router
