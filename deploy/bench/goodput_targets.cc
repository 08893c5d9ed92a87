#include "deploy/bench/goodput_targets.h"

#include <string_view>

#include "common/config/program_options.h"

namespace tandem::deploy {

bool GoodputTargets::MetBy(const RequestRecord& record) const {
  return (!ttft || record.Ttft() <= *ttft) && (!tpot || record.Tpot() <= *tpot) &&
         (!e2e || record.EndToEnd() <= *e2e);
}

std::string GoodputTargets::ToString() const {
  std::string out;
  const auto add = [&](std::string_view name, const std::optional<Duration>& target) {
    if (!target) return;
    out += fmt::format("{}{}:{:g}ms", out.empty() ? "" : ",", name, ToMillis(*target));
  };
  add("ttft", ttft);
  add("tpot", tpot);
  add("e2e", e2e);
  return out;
}

StatusOr<GoodputTargets> GoodputTargets::Parse(const std::string& text) {
  GoodputTargets targets;
  std::string_view rest(text);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const std::size_t colon = pair.find(':');
    const std::string_view name = pair.substr(0, colon);
    std::optional<Duration>* target = name == "ttft"   ? &targets.ttft
                                      : name == "tpot" ? &targets.tpot
                                      : name == "e2e"  ? &targets.e2e
                                                       : nullptr;
    if (target == nullptr || colon == std::string_view::npos) {
      return InvalidArgument("'{}' is no target; give ttft:TIME, tpot:TIME or e2e:TIME", pair);
    }
    Duration value{};
    TANDEM_RETURN_IF_ERROR(config::Seconds(&value).parse(std::string(pair.substr(colon + 1))));
    *target = value;
  }
  return targets;
}

}  // namespace tandem::deploy
