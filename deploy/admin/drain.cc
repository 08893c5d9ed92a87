#include "deploy/admin/drain.h"

#include <cstdio>
#include <thread>

#include "common/handoff/events.h"
#include "deploy/admin/admin_client.h"
#include "deploy/admin/drain_watch.h"

namespace tandem::deploy {
namespace {

constexpr Duration kLookEvery = std::chrono::milliseconds(200);
// Beyond the budget and the protocol's grace: for the process to end.
constexpr Duration kPatience = std::chrono::seconds(25);

void Say(const DrainOptions& options, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", options.node.c_str(), what.c_str());
}

}  // namespace

void DrainOptions::Register(config::ProgramOptions& options) {
  admin.Register(options);
  options.Add("budget", "TIME", "to finish what runs; what is left then moves to other nodes",
              config::Seconds(&budget));
  options.Add("wait", "", "return when the node is gone", config::Switch(&wait));
}

Status Drain(const DrainOptions& options) {
  if (options.budget < Duration(0) || options.budget > handoff::kDrainBudgetMax) {
    return InvalidArgument("--budget must lie between 0 s and 24 h");
  }
  TANDEM_ASSIGN_OR_RETURN(AdminClient client, AdminClient::Create(options.admin));
  TANDEM_ASSIGN_OR_RETURN(std::vector<NodeRow> nodes, client.Nodes());
  TANDEM_ASSIGN_OR_RETURN(const DrainWatch watch, DrainWatch::Begin(nodes, options.node));
  TANDEM_RETURN_IF_ERROR(client.Drain(options.node, options.budget));
  Say(options, fmt::format("drains, for at most {} s", ToSeconds(options.budget)));
  if (watch.LeavesNoPair(nodes)) Say(options, "no other pair is left: new requests will wait");
  if (!options.wait) return OkStatus();

  const Deadline deadline =
      Deadline::After(SteadyNow(), options.budget + handoff::kDrainGrace + kPatience);
  std::string said;
  while (!deadline.Passed(SteadyNow())) {
    TANDEM_ASSIGN_OR_RETURN(nodes, client.Nodes());
    TANDEM_ASSIGN_OR_RETURN(const bool gone, watch.IsGone(nodes));
    if (gone) {
      Say(options, "drained and gone");
      return OkStatus();
    }
    if (std::string now = watch.Progress(nodes); now != said) Say(options, said = std::move(now));
    std::this_thread::sleep_for(kLookEvery);
  }
  return DeadlineExceeded("{} is still there; {}", options.node, watch.Progress(nodes));
}

}  // namespace tandem::deploy
