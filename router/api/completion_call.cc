#include "router/api/completion_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/log/log.h"
#include "router/api/request_id.h"
#include "router/api/request_timeout.h"

namespace tandem::router {
namespace {

// More than this unsent: the client reads slower than the node speaks, which then has to wait.
constexpr std::size_t kUnsentMax = 16 << 10;

ApiError ContextExceeded(std::string_view param, std::string message) {
  return ApiError{.status = 400,
                  .message = std::move(message),
                  .param = std::string(param),
                  .code = "context_length_exceeded"};
}

}  // namespace

void CompletionCall::Start(const CallContext& context, CompletionKind kind,
                           net::HttpExchangePtr exchange) {
  std::make_shared<CompletionCall>(context, kind, std::move(exchange))->Run();
}

CompletionCall::CompletionCall(const CallContext& context, CompletionKind kind,
                               net::HttpExchangePtr exchange)
    : context_(context),
      probe_(context.probe),
      kind_(kind),
      exchange_(std::move(exchange)),
      request_id_(RequestIdOf(exchange_->request(), context.random)) {
  probe_.open_requests.Increment();
}

CompletionCall::~CompletionCall() { probe_.open_requests.Decrement(); }

std::string_view CompletionCall::endpoint() const {
  return kind_ == CompletionKind::kChat ? "chat.completions" : "completions";
}

// --- before the first token

void CompletionCall::Run() {
  times_.received = SteadyNow();
  exchange_->OnGone([weak = weak_from_this()](net::GoneReason) {
    if (auto self = weak.lock()) self->OnGone();
  });
  auto timeout = RequestTimeoutOf(exchange_->request(), context_.deadline);
  if (const ApiError* error = std::get_if<ApiError>(&timeout)) return Fail(*error);
  deadline_ = Deadline::After(times_.received, std::get<Duration>(timeout));
  exchange_->OnTaken([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->GrantTaken();
  });
  net::HttpBody body = exchange_->TakeBody();
  if (body.bytes.size() <= context_.inline_bytes) {
    return OnPrepared(Prepare(context_.model, body.bytes, kind_));
  }
  const bool taken = context_.work.TryRun(
      [self = shared_from_this(), &context = context_, body = std::move(body)]() mutable {
        auto prepared = Prepare(context.model, body.bytes, self->kind_);
        // The call goes back with the result: it is destroyed on the strand.
        context.strand.Post(
            [self = std::move(self), prepared = std::move(prepared),
             hold = std::move(body.hold)]() mutable { self->OnPrepared(std::move(prepared)); });
      });
  if (!taken) Refuse(ResourceExhausted("too many long prompts wait to be read"));
}

ApiResult<CompletionCall::Prepared> CompletionCall::Prepare(const ServedModel& model,
                                                            std::string_view body,
                                                            CompletionKind kind) {
  auto parsed = ParseCompletionRequest(body, kind);
  if (ApiError* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  Prepared out{.request = std::get<CompletionRequest>(std::move(parsed)), .prompt = {}};
  if (!model.Serves(out.request.model)) {
    return ApiError{
        .status = 404,
        .message = fmt::format("model '{}' is not served here; there is: {}",
                               Excerpt(out.request.model), fmt::join(model.options().ids, ", ")),
        .param = "model",
        .code = "model_not_found"};
  }
  for (TokenId id : out.request.stop_token_ids) {
    if (id >= TokenId(model.tokenizer().vocab_size().value())) {
      return FieldError("stop_token_ids", "stop_token_ids has {}, must be token ids below {}", id,
                        model.tokenizer().vocab_size());
    }
  }
  auto prompt = model.MakePrompt(out.request);
  if (ApiError* error = std::get_if<ApiError>(&prompt)) return std::move(*error);
  out.prompt = std::get<TokenIds>(std::move(prompt));
  return out;
}

void CompletionCall::OnPrepared(ApiResult<Prepared> prepared) {
  if (!exchange_->open()) return;  // left while it was prepared
  if (const ApiError* error = std::get_if<ApiError>(&prepared)) return Fail(*error);
  Begin(std::get<Prepared>(std::move(prepared)));
}

ApiResult<sequence::SamplingParams> CompletionCall::MakeParams(std::size_t prompt_tokens) const {
  const std::int64_t context = context_.backend.context().value();
  const std::int64_t room = context - static_cast<std::int64_t>(prompt_tokens);
  const std::string_view prompt_field = kind_ == CompletionKind::kChat ? "messages" : "prompt";
  if (room < 1) {
    return ContextExceeded(
        prompt_field,
        fmt::format("the prompt has {} tokens; the context here is {} tokens, prompt and "
                    "answer together: shorten the prompt",
                    prompt_tokens, context));
  }
  if (request_.max_tokens && request_.max_tokens->value() > room) {
    return ContextExceeded(
        "max_tokens",
        fmt::format("the prompt has {} tokens and max_tokens is {}, together {}; the context "
                    "here is {} tokens: shorten the prompt or ask for at most {}",
                    prompt_tokens, *request_.max_tokens,
                    static_cast<std::int64_t>(prompt_tokens) + request_.max_tokens->value(),
                    context, room));
  }
  sequence::SamplingParams params;
  params.temperature = static_cast<float>(request_.temperature);
  params.top_k = request_.top_k;
  params.top_p = static_cast<float>(request_.top_p);
  params.min_p = static_cast<float>(request_.min_p);
  params.seed = request_.seed ? *request_.seed : context_.random();
  params.max_tokens = request_.max_tokens.value_or(TokenCount(static_cast<std::int32_t>(room)));
  params.stop_token_ids = request_.stop_token_ids;
  if (!request_.ignore_eos) {
    const auto& ends = context_.model.tokenizer().end_of_generation();
    params.stop_token_ids.insert(params.stop_token_ids.end(), ends.begin(), ends.end());
  }
  std::sort(params.stop_token_ids.begin(), params.stop_token_ids.end());
  params.stop_token_ids.erase(
      std::unique(params.stop_token_ids.begin(), params.stop_token_ids.end()),
      params.stop_token_ids.end());
  if (Status valid = params.Validate(); !valid.ok()) return FromStatus(valid);
  return params;
}

void CompletionCall::Begin(Prepared prepared) {
  request_ = std::move(prepared.request);
  probe_.unknown_fields.Increment(request_.unknown_fields);
  auto params = MakeParams(prepared.prompt.size());
  if (const ApiError* error = std::get_if<ApiError>(&params)) return Fail(*error);

  usage_.prompt = TokenCount(static_cast<std::int32_t>(prepared.prompt.size()));
  stream_.emplace(context_.model.tokenizer(), request_.stop);
  format_.emplace(AnswerFormat::Options{
      .kind = kind_,
      .id = fmt::format("{}-{:016x}", kind_ == CompletionKind::kChat ? "chatcmpl" : "cmpl",
                        context_.random()),
      .model = request_.model.empty() ? context_.model.id() : request_.model,
      .created_unix_s = context_.unix_time_s(),
      .include_usage = request_.include_usage,
      .continuous_usage = request_.continuous_usage});
  request_.messages.clear();  // the ids say it all
  request_.prompt = std::string();

  times_.submitted = SteadyNow();
  Generation generation{.tokens = std::make_shared<const TokenIds>(std::move(prepared.prompt)),
                        .params = std::get<sequence::SamplingParams>(std::move(params)),
                        .deadline = deadline_};
  auto id = context_.backend.Submit(std::move(generation), shared_from_this());
  if (!id.ok()) return Refuse(id.status());
  id_ = *id;
  probe_.prompt_tokens.Increment(usage_.prompt.value());
}

void CompletionCall::OnGone() {
  probe_.Answered(std::string(endpoint()), 499);
  if (id_) context_.backend.ClientGone(*id_);
}

// --- tokens

void CompletionCall::OnTokens(Position first, std::span<const TokenId> tokens) {
  if (times_.first_text == Time{}) times_.first_text = SteadyNow();
  for (std::size_t i = 0; i < tokens.size() && !stopped_; ++i) {
    usage_.completion += TokenCount(1);
    if (stream_->Append(tokens[i], text_)) {
      stopped_ = true;
      context_.backend.StopMatched(*id_, first + Position(static_cast<std::int32_t>(i)));
    }
  }
  if (request_.stream) SendText();
  not_taken_ += static_cast<std::int32_t>(tokens.size());
  GrantTaken();
}

void CompletionCall::GrantTaken() {
  if (!id_ || not_taken_ == 0 || exchange_->unsent_bytes() > kUnsentMax) return;
  context_.backend.Consumed(*id_, std::exchange(not_taken_, 0));
}

void CompletionCall::SendHeaders() {
  if (std::exchange(headers_sent_, true)) return;
  exchange_->StartStream(
      {.status = 200,
       .content_type = "text/event-stream",
       .headers = {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}, request_id_}});
}

void CompletionCall::SendText() {
  if (text_.empty()) return;
  SendHeaders();
  exchange_->WriteEvent(format_->TextEvent(text_, std::exchange(first_, false), usage_));
  text_.clear();
}

void CompletionCall::OnFinished(const Status& status, sequence::FinishReason finish,
                                const Bill& bill) {
  id_.reset();
  if (!exchange_->open()) return;  // the client left; nobody reads
  if (!status.ok() && !stopped_) {
    log::Warning("router.request.failed", "endpoint={} attempts={} delivered={} status=\"{}\"",
                 endpoint(), bill.attempts, bill.delivered, FromAbsl(status.message()));
    return Fail(FromStatus(status));
  }
  usage_.cached = std::min(bill.times.cached_tokens, usage_.prompt);
  probe_.generated_tokens.Increment(usage_.completion.value());
  probe_.cached_tokens.Increment(usage_.cached.value());
  if (times_.first_text != Time{}) {
    probe_.ttft.Observe(ToSeconds(times_.first_text - times_.received));
  }
  if (bill.delivered > TokenCount(1)) probe_.itl_mean.Observe(ToSeconds(MeanItl(bill)));

  stream_->Finish(text_);
  const std::string_view reason =
      FinishReasonName(stopped_ ? sequence::FinishReason::kStop : finish);
  if (request_.stream) {
    FinishStream(reason, bill);
  } else {
    const std::string timings = request_.timings ? TimingsJson(times_, bill) : std::string();
    exchange_->Respond({.status = 200,
                        .headers = {request_id_},
                        .body = format_->Whole(text_, reason, usage_, timings)});
  }
  probe_.Answered(std::string(endpoint()), 200);
}

void CompletionCall::FinishStream(std::string_view reason, const Bill& bill) {
  SendText();
  SendHeaders();
  const std::string timings = request_.timings ? TimingsJson(times_, bill) : std::string();
  exchange_->WriteEvent(
      format_->FinishEvent(reason, std::exchange(first_, false), usage_, timings));
  if (request_.include_usage) exchange_->WriteEvent(format_->UsageEvent(usage_, timings));
  exchange_->WriteEvent(kDoneEvent);
  exchange_->EndStream();
}

// Not begun: says when to come again.
void CompletionCall::Refuse(const Status& status) {
  ApiError error = FromStatus(status);
  if (error.status == 429) {
    error.retry_after_s = static_cast<int>(std::ceil(ToSeconds(context_.backend.RetryAfter())));
  }
  Fail(error);
}

void CompletionCall::Fail(const ApiError& error) {
  probe_.Answered(std::string(endpoint()), error.status);
  if (!headers_sent_) {
    net::HttpResponse response = error.ToResponse();
    response.headers.push_back(request_id_);
    return exchange_->Respond(std::move(response));
  }
  exchange_->WriteEvent(AnswerFormat::ErrorEvent(error));
  exchange_->WriteEvent(kDoneEvent);
  exchange_->EndStream();
}

}  // namespace tandem::router
