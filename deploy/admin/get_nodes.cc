#include "deploy/admin/get_nodes.h"

#include <cstdio>

#include "deploy/admin/admin_client.h"

namespace tandem::deploy {

void GetNodesOptions::Register(config::ProgramOptions& options) {
  admin.Register(options);
  options.Add("json", "", "print what the router says", config::Switch(&json));
}

Status GetNodes(const GetNodesOptions& options) {
  TANDEM_ASSIGN_OR_RETURN(AdminClient client, AdminClient::Create(options.admin));
  TANDEM_ASSIGN_OR_RETURN(const std::string json, client.NodesJson());
  TANDEM_ASSIGN_OR_RETURN(const std::vector<NodeRow> nodes, ParseNodes(json));
  std::fputs((options.json ? json + "\n" : NodesTable(nodes)).c_str(), stdout);
  return OkStatus();
}

}  // namespace tandem::deploy
