#include "deploy/bench/bench_options.h"

#include <limits>

namespace tandem::deploy {
namespace {

constexpr int kIntMax = std::numeric_limits<int>::max();
constexpr int kDefaultRequests = 100;
constexpr std::int64_t kLengthMax = 1 << 20;

}  // namespace

void BenchOptions::Register(config::ProgramOptions& options) {
  using namespace config;
  options.Add("url", "URL", "the server, http or https", Text(&url));
  options.Add("api-key", "KEY", "sent as a bearer token (none)", Text(&api_key));
  options.Add("model", "ID", "the model (the server's first)", Text(&model));
  options.Add("endpoint", "WHICH", "where prompts go; lines with messages always go to chat",
              Choice(&endpoint, {"completions", "chat"}));
  options.Add("rate", "R", "open loop: R requests a second, whatever the server does; 0: closed",
              Number(&rate, 0, 1e6));
  options.Add("arrival", "HOW", "gaps between requests of the open loop",
              Choice(&arrival, {"poisson", "constant"}));
  options.Add("concurrency", "N", "closed loop: N streams at any time; 0: 1, or an open loop",
              Int(&concurrency, 0, 100'000));
  options.Add("requests", "N",
              "ends after N requests; 0: by --duration, or each line of --prompts once, or 100",
              Int(&requests, 0, kIntMax));
  options.Add("duration", "TIME", "how long requests are sent", Seconds(&duration));
  options.Add("warmup", "TIME", "sent before, and not counted", Seconds(&warmup));
  options.Add("seed", "N", "of arrivals, generated prompts and the requests' own seeds",
              Int(&seed, 0, kIntMax));
  options.Add("prompts", "FILE", "JSON lines, sent in order, again and again (none)",
              Text(&prompts));
  options.Add("prompt-tokens", "N|A-B", "generated prompts of this many random tokens",
              Lengths(&prompt_tokens, 1, kLengthMax));
  options.Add("output-tokens", "N|A-B",
              "max_tokens where the prompt's line has none; generated prompts ignore the end token",
              Lengths(&output_tokens, 1, kLengthMax));
  options.Add("token-ids", "A-B", "ids that generated prompts are drawn from",
              Lengths(&token_ids, 0, kIntMax));
  options.Add("temperature", "T", "0..2; below 0: the line's, or the server's default",
              Number(&temperature, -1, 2));
  options.Add("timings", "", "asks for the server's timings: attempts and placements",
              Switch(&timings));
  options.Add("timeout", "TIME", "of a request, from its sending to its end", Seconds(&timeout));
  options.Add("max-in-flight", "N", "an open loop sends no further one: the run is invalid",
              Int(&max_in_flight, 1, 100'000));
  options.Add("late-limit", "TIME", "later is late; over 1 % of that and the run is invalid",
              Seconds(&late_limit));
  options.Add("goodput", "TARGETS", "ttft:TIME,tpot:TIME,e2e:TIME that a good request meets (none)",
              Text(&goodput));
  options.Add("json", "FILE", "writes configuration, figures and a timeline (none)", Text(&json));
  options.Add("records", "FILE", "writes one JSON line per request as it ends (none)",
              Text(&records));
  options.Add("record-expected", "FILE",
              "writes --prompts anew with each answer as what is expected (none)",
              Text(&record_expected));
}

Status BenchOptions::Validate() const {
  if (rate > 0 && concurrency > 0) {
    return InvalidArgument(
        "--rate {:g} is an open loop and --concurrency {} a closed one; give one of them", rate,
        concurrency);
  }
  if (prompts.empty() && !prompt_tokens.given()) {
    return InvalidArgument(
        "there is nothing to send; give --prompts FILE, or --prompt-tokens and --output-tokens");
  }
  if (!prompts.empty() && prompt_tokens.given()) {
    return InvalidArgument("--prompts {} and --prompt-tokens {} contradict; give one of them",
                           prompts, prompt_tokens.ToString());
  }
  if (prompt_tokens.given() && !output_tokens.given()) {
    return InvalidArgument("--prompt-tokens needs --output-tokens, the length of the answers");
  }
  if (prompt_tokens.given() && endpoint == "chat") {
    return InvalidArgument(
        "--prompt-tokens are ids, which chat does not take; use --endpoint completions");
  }
  StatusOr<GoodputTargets> targets = GoodputTargets::Parse(goodput);
  return targets.ok() ? OkStatus() : Annotate(targets.status(), "--goodput");
}

StatusOr<PromptSource> BenchOptions::MakePrompts(const std::string& model_id) const {
  PromptOptions options{.chat = endpoint == "chat",
                        .prompt_tokens = prompt_tokens,
                        .output_tokens = output_tokens,
                        .token_ids = token_ids,
                        .seed = static_cast<std::uint64_t>(seed),
                        .temperature = {},
                        .model = model_id,
                        .timings = timings};
  if (temperature >= 0) options.temperature = temperature;
  if (prompts.empty()) return PromptSource::Generated(options);
  return PromptSource::FromFile(prompts, options);
}

LoadPlan BenchOptions::MakePlan(const PromptSource& source) const {
  LoadPlan plan;
  plan.rate_per_s = rate;
  plan.arrival = arrival == "poisson" ? Arrivals::Kind::kPoisson : Arrivals::Kind::kConstant;
  plan.concurrency = std::max(concurrency, 1);
  if (requests > 0) plan.requests = requests;
  if (duration > Duration::zero()) plan.duration = duration;
  if (!plan.requests && !plan.duration) {
    plan.requests = source.num_lines().value_or(kDefaultRequests);
  }
  plan.warmup = warmup;
  plan.seed = static_cast<std::uint64_t>(seed);
  plan.max_in_flight = std::max(max_in_flight, plan.rate_per_s > 0 ? 0 : plan.concurrency);
  plan.late_limit = late_limit;
  return plan;
}

boost::json::object BenchOptions::ToJson() const {
  return {{"url", url},
          {"model", model},
          {"endpoint", endpoint},
          {"rate", rate},
          {"arrival", arrival},
          {"concurrency", rate > 0 ? 0 : std::max(concurrency, 1)},
          {"requests", requests},
          {"duration_s", ToSeconds(duration)},
          {"warmup_s", ToSeconds(warmup)},
          {"seed", seed},
          {"prompts", prompts},
          {"prompt_tokens", prompt_tokens.ToString()},
          {"output_tokens", output_tokens.ToString()},
          {"token_ids", token_ids.ToString()},
          {"temperature", temperature < 0 ? boost::json::value() : temperature},
          {"timings", timings},
          {"timeout_s", ToSeconds(timeout)},
          {"max_in_flight", max_in_flight},
          {"late_limit_ms", ToMillis(late_limit)},
          {"goodput", goodput}};
}

}  // namespace tandem::deploy
