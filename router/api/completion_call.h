// One request to a completions endpoint, from its body to its last byte.
//
//   Start → prepare (parse, render, encode; a long one off the strand) → Submit → tokens → text →
//   events, or one response
//
// Headers go out with the first text, so whatever fails before is an HTTP status. All on the
// strand but Prepare(). Kept alive by the work, the backend and the exchange it is in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/time.h"
#include "common/net/http_exchange.h"
#include "common/net/strand.h"
#include "router/api/answer_format.h"
#include "router/api/api_probe.h"
#include "router/api/completion_request.h"
#include "router/api/generation.h"
#include "router/api/served_model.h"
#include "router/api/text_stream.h"
#include "router/api/timings.h"
#include "router/api/work_queue.h"

namespace tandem::router {

// What every call needs; outlives all calls that do something. A call that only ends, because what
// held it ends, touches the probe alone.
struct CallContext {
  const ServedModel& model;
  GenerationBackend& backend;
  WorkQueue& work;
  net::Strand strand;
  ApiProbe& probe;
  Duration deadline;                      // of a request, from its arrival, at most
  std::size_t inline_bytes;               // longer bodies are prepared off the strand
  std::function<std::uint64_t()> random;  // ids and seeds
  std::function<std::int64_t()> unix_time_s;
};

class CompletionCall : public GenerationSink, public std::enable_shared_from_this<CompletionCall> {
 public:
  static void Start(const CallContext& context, CompletionKind kind, net::HttpExchangePtr exchange);

  CompletionCall(const CallContext& context, CompletionKind kind, net::HttpExchangePtr exchange);
  ~CompletionCall() override;

  void OnTokens(Position first, std::span<const TokenId> tokens) override;
  void OnFinished(const Status& status, sequence::FinishReason finish, const Bill& bill) override;

 private:
  struct Prepared {
    CompletionRequest request;
    TokenIds prompt;
  };

  void Run();
  static ApiResult<Prepared> Prepare(const ServedModel& model, std::string_view body,
                                     CompletionKind kind);
  void OnPrepared(ApiResult<Prepared> prepared);
  ApiResult<sequence::SamplingParams> MakeParams(std::size_t prompt_tokens) const;
  void Begin(Prepared prepared);
  void OnGone();
  // Lets the node go on as far as the client's socket took what came.
  void GrantTaken();
  void SendHeaders();
  void SendText();
  void FinishStream(std::string_view reason, const Bill& bill);
  void Fail(const ApiError& error);
  void Refuse(const Status& status);
  std::string_view endpoint() const;

  const CallContext& context_;
  ApiProbe& probe_;
  const CompletionKind kind_;
  net::HttpExchangePtr exchange_;
  const net::HttpHeader request_id_;  // of every answer
  CompletionRequest request_;
  std::optional<AnswerFormat> format_;
  std::optional<TextStream> stream_;
  std::optional<handoff::RequestId> id_;  // while the backend has it
  Deadline deadline_;
  RequestTimes times_;
  Usage usage_;
  std::string text_;            // not sent yet; all of it where nothing is streamed
  std::int32_t not_taken_ = 0;  // positions that the node got no credit for yet
  bool headers_sent_ = false;
  bool first_ = true;     // no event was sent yet
  bool stopped_ = false;  // a stop string is complete
};

}  // namespace tandem::router
