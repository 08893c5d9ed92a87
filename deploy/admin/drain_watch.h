// Follows one node's drain through what the router says of its nodes. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/admin/node_rows.h"

namespace tandem::deploy {

class DrainWatch {
 public:
  // Errors: NotFound naming the nodes there are; FailedPrecondition when it is not connected.
  static StatusOr<DrainWatch> Begin(const std::vector<NodeRow>& nodes, const std::string& name);

  // Whether it is gone: it ended in order, or another life has its name. Errors: Unavailable when
  // it was lost before it had drained.
  StatusOr<bool> IsGone(const std::vector<NodeRow>& nodes) const;
  // Of a node that is still there: "2 requests, 1 running, 0 queued".
  std::string Progress(const std::vector<NodeRow>& nodes) const;
  // Draining it leaves no usable pair: new requests will wait.
  bool LeavesNoPair(const std::vector<NodeRow>& nodes) const;

 private:
  DrainWatch(std::string name, std::string incarnation)
      : name_(std::move(name)), incarnation_(std::move(incarnation)) {}
  const NodeRow* Find(const std::vector<NodeRow>& nodes) const;

  std::string name_;
  std::string incarnation_;
};

}  // namespace tandem::deploy
