// What RouterService shows of itself: /health and its part of /metrics.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "common/base/json_string.h"
#include "router/api/api_error.h"
#include "router/router_service.h"

namespace tandem::router {
namespace {

void AddMetric(std::string& out, std::string_view name, std::string_view kind,
               std::string_view help, std::int64_t value) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n{} {}\n", name, help, name,
                 kind, name, value);
}

// What the nodes' last heartbeats say, by metric name, then by node.
std::map<std::string, std::map<std::string, std::int64_t>> NodeMetrics(
    const std::vector<NodeView>& nodes) {
  std::map<std::string, std::map<std::string, std::int64_t>> out;
  for (const NodeView& node : nodes) {
    const handoff::Heartbeat& load = node.load;
    for (const handoff::NodeMetric& metric : load.metrics) {
      out[metric.name][node.name] = metric.value;
    }
    out["queued"][node.name] = load.queued;
    out["running"][node.name] = load.running;
    out["queued_tokens"][node.name] = load.queued_tokens.value();
    out["free_blocks"][node.name] = load.free_blocks.value();
    out["quarantined_blocks"][node.name] = load.quarantined_blocks.value();
    out["draining"][node.name] = load.draining ? 1 : 0;
    out["steps"][node.name] = static_cast<std::int64_t>(load.step_number);
  }
  return out;
}

// A node chooses its name; the text format has its own rules for it.
std::string LabelValue(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

bool IsMetricName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

}  // namespace

std::string RouterService::HealthJson() const {
  const RouterStats stats = core_.stats();
  std::vector<std::string> nodes;
  for (const auto& node : nodes_) {
    std::string entry = fmt::format(R"({{"address":{},"role":"{}","connected":{})",
                                    JsonString(node->link->address().ToString()),
                                    RoleName(node->role), node->id.has_value());
    if (node->id) {
      entry += ",\"name\":" + JsonString(node->hello.name);
    } else {
      entry +=
          ",\"reason\":" + JsonString(Excerpt(FromAbsl(node->link->last_error().message()), 400));
    }
    nodes.push_back(entry + "}");
  }
  return fmt::format(
      R"({{"status":"{}","usable_pairs":{},"requests":{},"queued":{},"nodes":[{}]}})",
      stopping_       ? "stopping"
      : core_.ready() ? "ok"
                      : "no usable pair",
      stats.usable_pairs, stats.requests, stats.queued, fmt::join(nodes, ","));
}

std::string RouterService::MetricsText() const {
  const RouterStats s = core_.stats();
  std::string out;
  const auto gauge = [&](std::string_view name, std::string_view help, std::int64_t value) {
    AddMetric(out, name, "gauge", help, value);
  };
  const auto counter = [&](std::string_view name, std::string_view help, std::int64_t value) {
    AddMetric(out, name, "counter", help, value);
  };
  gauge("tandem_router_nodes", "Connected nodes.", s.nodes);
  gauge("tandem_router_usable_pairs", "Pairs that have exchanged KV bytes.", s.usable_pairs);
  gauge("tandem_router_requests", "Unfinished requests.", s.requests);
  gauge("tandem_router_queued_requests", "Requests that wait for a pair.", s.queued);
  counter("tandem_router_submitted_total", "Requests taken.", s.submitted);
  counter("tandem_router_refused_total", "Requests refused by a bound.", s.refused);
  counter("tandem_router_refused_late_total", "Of these, by a queue longer than their deadline.",
          s.refused_late);
  counter("tandem_router_finished_total", "Requests that ended well.", s.finished);
  counter("tandem_router_failed_total", "Requests that ended in an error.", s.failed);
  counter("tandem_router_cancelled_total", "Requests whose client left.", s.cancelled);
  counter("tandem_router_attempts_total", "Tries at requests.", s.attempts);
  counter("tandem_router_placements_total", "Decode nodes noted for an attempt.",
          s.placements_noted);
  counter("tandem_router_positions_total", "Tokens delivered.", s.positions);
  counter("tandem_router_repeats_total", "Tokens that came again, equal.", s.repeats);
  counter("tandem_router_repeats_different_total",
          "Tokens that came again and differed: same request, other bytes.", s.repeats_different);
  counter("tandem_router_gaps_total", "Tokens beyond the next one, taken as a loss.", s.gaps);
  counter("tandem_router_stale_messages_total", "Messages of older tries.", s.stale_messages);
  gauge("tandem_router_queued_retries", "Of the requests that wait, those begun before.",
        s.retries_queued);
  gauge("tandem_router_retries_under_way", "New attempts without a token yet.",
        s.retries_under_way);
  counter("tandem_router_placed_again_total",
          "Placements noted after another one of the same attempt.", s.placed_again);
  counter("tandem_router_nodes_lost_total", "Connections to nodes that ended.", s.nodes_lost);
  counter("tandem_router_nodes_stuck_total", "Steps that took far longer than they can.",
          s.nodes_stuck);
  for (const auto& [name, values] : NodeMetrics(core_.nodes())) {
    if (!IsMetricName(name)) continue;
    fmt::format_to(std::back_inserter(out), "# TYPE tandem_node_{} untyped\n", name);
    for (const auto& [node, value] : values) {
      fmt::format_to(std::back_inserter(out), "tandem_node_{}{{node=\"{}\"}} {}\n", name,
                     LabelValue(node), value);
    }
  }
  return out;
}

}  // namespace tandem::router
