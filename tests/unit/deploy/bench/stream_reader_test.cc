#include "deploy/bench/stream_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/scripted_server.h"

namespace tandem::deploy {
namespace {

using client::RequestPool;
using testing::kDoneEvent;
using testing::TextEvent;
using testing::UsageEvent;
using End = RequestPool::End;
using ::testing::HasSubstr;

Time At(int ms) { return Time(std::chrono::milliseconds(ms)); }

// Piece i is read at 10·i ms, the end comes 10 ms after the last.
StreamResult Read(const std::vector<std::string>& pieces, const RequestPool::Ended& ended = {},
                  int status = 200) {
  StreamReader reader;
  reader.OnStatus(status);
  int ms = 0;
  for (const std::string& piece : pieces) {
    reader.OnBody(piece, At(ms));
    ms += 10;
  }
  return reader.Finish(ended, At(ms));
}

Outcome OutcomeFor(const std::vector<std::string>& pieces, const RequestPool::Ended& ended = {}) {
  return Read(pieces, ended).outcome;
}

TEST(StreamReader, GathersTextTimesAndUsage) {
  const StreamResult result = Read(
      {TextEvent("He"), TextEvent("y"), TextEvent("", "length"), UsageEvent(7, 2), kDoneEvent});
  EXPECT_EQ(result.outcome, Outcome::kOk) << result.detail;
  EXPECT_EQ(result.text, "Hey");
  EXPECT_EQ(result.finish_reason, "length");
  EXPECT_EQ(result.text_times, (std::vector<Time>{At(0), At(10)}));
  EXPECT_EQ(result.end, At(50));
  EXPECT_EQ(result.prompt_tokens, 7);
  EXPECT_EQ(result.tokens, 2);
}

TEST(StreamReader, ReadsChatAndTimings) {
  const StreamResult result =
      Read({"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"x\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],"
            "\"timings\":{\"attempts\":2,\"placements\":3}}\n\n",
            kDoneEvent});
  EXPECT_EQ(result.outcome, Outcome::kOk) << result.detail;
  EXPECT_EQ(result.text, "x");
  EXPECT_EQ(result.attempts, 2);
  EXPECT_EQ(result.placements, 3);
}

TEST(StreamReader, IsIndependentOfHowTheBytesAreSplit) {
  const std::string all =
      TextEvent("He") + TextEvent("y") + TextEvent("", "stop") + UsageEvent(7, 2) + kDoneEvent;
  std::vector<std::string> bytes;
  for (char c : all) bytes.emplace_back(1, c);
  const StreamResult result = Read(bytes);
  EXPECT_EQ(result.outcome, Outcome::kOk) << result.detail;
  EXPECT_EQ(result.text, "Hey");
  EXPECT_EQ(result.text_times.size(), 2u);
}

TEST(StreamReader, TellsHowAStreamFailed) {
  const std::string text = TextEvent("a"), finish = TextEvent("", "stop"), done = kDoneEvent;
  const std::string error = "data: {\"error\":{\"message\":\"lost\"}}\n\n";
  EXPECT_EQ(OutcomeFor({text, done}), Outcome::kNoFinish);
  EXPECT_EQ(OutcomeFor({text}), Outcome::kEndedEarly);
  EXPECT_EQ(OutcomeFor({}), Outcome::kEndedEarly);
  EXPECT_EQ(OutcomeFor({text, finish}), Outcome::kEndedEarly);
  EXPECT_EQ(OutcomeFor({text, error, done}), Outcome::kErrorEvent);
  EXPECT_EQ(OutcomeFor({text, finish, error, done}), Outcome::kAfterFinish);
  EXPECT_EQ(OutcomeFor({text, finish, text, done}), Outcome::kAfterFinish);
  EXPECT_EQ(OutcomeFor({text, finish, finish, done}), Outcome::kAfterFinish);
  EXPECT_EQ(OutcomeFor({text, finish, done, error}), Outcome::kAfterFinish);
  EXPECT_EQ(OutcomeFor({text, "data: {\n\n", finish, done}), Outcome::kBadStream);
  EXPECT_EQ(OutcomeFor({"data: 7\n\n"}), Outcome::kBadStream);
  EXPECT_EQ(OutcomeFor({"{\"choices\":[]}"}), Outcome::kEndedEarly);  // no event stream at all
}

TEST(StreamReader, TellsHowAConnectionFailed) {
  const std::string text = TextEvent("a");
  const auto ended = [&](End end) { return OutcomeFor({text}, {.end = end}); };
  EXPECT_EQ(ended(End::kRefused), Outcome::kRefused);
  EXPECT_EQ(ended(End::kNoConnect), Outcome::kNoConnect);
  EXPECT_EQ(ended(End::kReset), Outcome::kReset);
  EXPECT_EQ(ended(End::kEndedEarly), Outcome::kEndedEarly);
  EXPECT_EQ(ended(End::kTimeout), Outcome::kTimeout);
  EXPECT_EQ(ended(End::kAborted), Outcome::kCancelled);
}

TEST(StreamReader, TheErrorInsideTheStreamOutweighsTheReset) {
  const StreamResult result =
      Read({"data: {\"error\":{\"message\":\"lost\"}}\n\n"}, {.end = End::kReset});
  EXPECT_EQ(result.outcome, Outcome::kErrorEvent);
  EXPECT_EQ(result.detail, "lost");
}

TEST(StreamReader, TellsTheServersRefusal) {
  const StreamResult result = Read({"{\"error\":{\"mess", "age\":\"queue full\"}}"}, {}, 429);
  EXPECT_EQ(result.outcome, Outcome::kHttpStatus);
  EXPECT_EQ(result.http_status, 429);
  EXPECT_THAT(result.detail, HasSubstr("queue full"));
  EXPECT_THAT(Read({std::string(100'000, 'x')}, {}, 502).detail, HasSubstr("HTTP 502: xxx"));
}

TEST(MakeRecord, CountsFromThePlannedTime) {
  StreamResult result;
  result.text_times = {At(140), At(150), At(190)};
  result.end = At(200);
  result.tokens = 6;
  const RequestRecord record = MakeRecord(result, At(20), At(100), At(104));
  EXPECT_EQ(record.Ttft(), std::chrono::milliseconds(40));
  EXPECT_EQ(record.Tpot(), std::chrono::milliseconds(10));
  EXPECT_EQ(record.EndToEnd(), std::chrono::milliseconds(100));
  EXPECT_EQ(record.pause, std::chrono::milliseconds(40));
  EXPECT_EQ(record.pause_at, std::chrono::milliseconds(130));
  EXPECT_EQ(record.sent, std::chrono::milliseconds(84));
}

TEST(MakeRecord, SilenceBeforeTheEndIsAPauseToo) {
  StreamResult result;
  result.text_times = {At(10)};
  result.end = At(500);
  EXPECT_EQ(MakeRecord(result, At(0), At(0), At(0)).pause, std::chrono::milliseconds(490));
}

}  // namespace
}  // namespace tandem::deploy
