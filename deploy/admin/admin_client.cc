#include "deploy/admin/admin_client.h"

#include <fmt/format.h>

#include <utility>

#include "common/client/openai_client.h"

namespace tandem::deploy {
namespace {

std::string PercentEncoded(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace

StatusOr<AdminClient> AdminClient::Create(const AdminFlags& flags) {
  TANDEM_ASSIGN_OR_RETURN(std::string url, flags.Url());
  client::HttpClient::Options options;
  options.base_url = std::move(url);
  options.api_key = flags.api_key;
  options.silence_timeout = std::chrono::seconds(30);
  TANDEM_ASSIGN_OR_RETURN(auto http, client::HttpClient::Create(std::move(options)));
  return AdminClient(std::move(http));
}

StatusOr<std::string> AdminClient::NodesJson() {
  TANDEM_ASSIGN_OR_RETURN(auto response, http_->Fetch("/nodes"));
  if (response.code != 200) return client::ErrorFrom(response);
  return std::move(response.body);
}

StatusOr<std::vector<NodeRow>> AdminClient::Nodes() {
  TANDEM_ASSIGN_OR_RETURN(const std::string json, NodesJson());
  return ParseNodes(json);
}

Status AdminClient::Drain(const std::string& name, Duration budget) {
  const std::string body = fmt::format(R"({{"budget_ms":{:.0f}}})", ToMillis(budget));
  TANDEM_ASSIGN_OR_RETURN(auto response,
                          http_->Fetch("/nodes/" + PercentEncoded(name) + "/drain", body));
  return response.code == 202 ? OkStatus() : client::ErrorFrom(response);
}

}  // namespace tandem::deploy
