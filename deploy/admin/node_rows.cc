#include "deploy/admin/node_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace tandem::deploy {
namespace {

namespace json = boost::json;

std::string Text(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(json::string_view(key.data(), key.size()));
  if (value == nullptr || !value->is_string()) return "";
  return std::string(value->get_string().data(), value->get_string().size());
}

double Number(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(json::string_view(key.data(), key.size()));
  if (value == nullptr) return 0;
  if (value->is_int64()) return static_cast<double>(value->get_int64());
  if (value->is_uint64()) return static_cast<double>(value->get_uint64());
  return value->is_double() ? value->get_double() : 0;
}

std::int64_t Count(const json::object& object, std::string_view key) {
  return static_cast<std::int64_t>(std::clamp(Number(object, key), -1e15, 1e15));
}

NodeRow RowOf(const json::object& object) {
  return {.name = Text(object, "name"),
          .role = Text(object, "role"),
          .address = Text(object, "address"),
          .incarnation = Text(object, "incarnation"),
          .state = Text(object, "state"),
          .requests = Count(object, "requests"),
          .queued = Count(object, "queued"),
          .running = Count(object, "running"),
          .free_blocks = Count(object, "free_blocks"),
          .total_blocks = Count(object, "total_blocks"),
          .quarantined_blocks = Count(object, "quarantined_blocks"),
          .usable_pairs = Count(object, "usable_pairs"),
          .step_running_ms = Number(object, "step_running_ms"),
          .last_error = Text(object, "last_error")};
}

}  // namespace

StatusOr<std::vector<NodeRow>> ParseNodes(std::string_view text) {
  json::error_code ec;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), ec);
  const json::object* object = ec ? nullptr : value.if_object();
  const json::value* nodes = object == nullptr ? nullptr : object->if_contains("nodes");
  if (nodes == nullptr || !nodes->is_array()) {
    return Unavailable("the answer is not a router's list of nodes: is this its admin port?");
  }
  std::vector<NodeRow> rows;
  for (const json::value& node : nodes->get_array()) {
    if (!node.is_object()) return Unavailable("the answer's list of nodes has something else");
    rows.push_back(RowOf(node.get_object()));
  }
  return rows;
}

std::string NodesTable(const std::vector<NodeRow>& nodes) {
  constexpr std::size_t kColumns = 10;
  using Cells = std::array<std::string, kColumns>;
  std::vector<Cells> lines = {{"NAME", "ROLE", "STATE", "ADDRESS", "REQUESTS", "QUEUED", "RUNNING",
                               "FREE BLOCKS", "PAIRS", "STEP"}};
  for (const NodeRow& n : nodes) {
    const bool there = n.state != "lost" && n.state != "drained";
    const auto count = [&](std::int64_t value) { return there ? std::to_string(value) : "-"; };
    std::string blocks = there ? fmt::format("{}/{}", n.free_blocks, n.total_blocks) : "-";
    if (n.quarantined_blocks > 0) blocks += fmt::format(" (-{})", n.quarantined_blocks);
    lines.push_back(
        {n.name.empty() ? "?" : n.name, n.role, n.state, n.address, count(n.requests),
         count(n.queued), count(n.running), blocks, count(n.usable_pairs),
         there && n.step_running_ms > 0 ? fmt::format("{:.0f} ms", n.step_running_ms) : "-"});
  }
  std::array<std::size_t, kColumns> widths{};
  for (const Cells& cells : lines) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string out;
  for (std::size_t row = 0; row < lines.size(); ++row) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) {
      line += fmt::format("{:<{}}  ", lines[row][i], widths[i]);
    }
    if (row > 0 && !nodes[row - 1].last_error.empty()) line += nodes[row - 1].last_error;
    while (line.ends_with(' ')) line.pop_back();
    out += line + "\n";
  }
  return out;
}

}  // namespace tandem::deploy
