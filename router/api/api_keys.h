// Who may use the API.
#pragma once

#include <string>
#include <vector>

#include "common/net/http_message.h"

namespace tandem::router {

// Immutable; thread-safe. Keeps hashes, never the keys.
class ApiKeys {
 public:
  // No keys: everybody may.
  explicit ApiKeys(const std::vector<std::string>& keys);

  bool required() const { return !digests_.empty(); }
  // Whether the request carries one of the keys: `Authorization: Bearer KEY` or `x-api-key: KEY`.
  // Takes the same time whatever the keys' first difference.
  bool Allow(const net::HttpRequest& request) const;

 private:
  std::vector<std::string> digests_;
};

}  // namespace tandem::router
