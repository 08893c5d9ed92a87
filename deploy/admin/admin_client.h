// A router's admin port, as commands use it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/time.h"
#include "common/client/http_client.h"
#include "deploy/admin/admin_flags.h"
#include "deploy/admin/node_rows.h"

namespace tandem::deploy {

class AdminClient {
 public:
  // Errors: of AdminFlags::Url().
  static StatusOr<AdminClient> Create(const AdminFlags& flags);

  // The answer of GET /nodes. Errors: Unavailable when nobody answers.
  StatusOr<std::string> NodesJson();
  StatusOr<std::vector<NodeRow>> Nodes();
  // Errors: NotFound, FailedPrecondition (it is not connected), Unavailable.
  Status Drain(const std::string& name, Duration budget);

 private:
  explicit AdminClient(std::unique_ptr<client::HttpClient> http) : http_(std::move(http)) {}
  std::unique_ptr<client::HttpClient> http_;
};

}  // namespace tandem::deploy
