#include "common/proto/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/pfr.hpp>
#include <type_traits>

#include "common/base/random.h"
#include "tests/unit/common/proto/equal.h"

namespace tandem::proto {
namespace {

using ::testing::HasSubstr;

// --- random valid values, field by field, so that a field the conversion forgets is found

template <typename T>
T Make(SplitMix64& random);

template <typename T>
T MakeEnum(SplitMix64& random) {
  if constexpr (std::is_same_v<T, kv::KvDtype>) return static_cast<T>(random.Below(2));
  if constexpr (std::is_same_v<T, handoff::Role>) return static_cast<T>(1 + random.Below(3));
  if constexpr (std::is_same_v<T, handoff::MemoryType>) return static_cast<T>(1 + random.Below(2));
  if constexpr (std::is_same_v<T, handoff::Reason>) return static_cast<T>(random.Below(12));
  if constexpr (std::is_same_v<T, sequence::FinishReason>) return static_cast<T>(random.Below(3));
}

template <typename T>
T Make(SplitMix64& random) {
  if constexpr (std::is_same_v<T, bool>) {
    return random.Below(2) == 1;
  } else if constexpr (std::is_enum_v<T>) {
    return MakeEnum<T>(random);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(random.Unit());
  } else if constexpr (std::is_unsigned_v<T>) {
    return static_cast<T>(random.Next() | 1);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(1 + random.Below(1000));
  } else if constexpr (std::is_same_v<T, Duration>) {
    return Duration(random.Below(1'000'000'000'000));
  } else if constexpr (IsStrongInt<T>::value) {
    return T(Make<typename T::RepType>(random));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return fmt::format("text-{}", random.Below(1000));
  } else if constexpr (std::is_same_v<T, Hash128>) {
    T hash;
    for (auto& byte : hash.bytes) byte = static_cast<std::uint8_t>(random.Next());
    return hash;
  } else if constexpr (kIsVector<T>) {
    T list(1 + random.Below(5));
    for (auto& entry : list) entry = Make<typename T::value_type>(random);
    return list;
  } else if constexpr (kIsShared<T>) {
    using List = std::remove_const_t<typename T::element_type>;
    return std::make_shared<const List>(Make<List>(random));
  } else {
    T out;
    boost::pfr::for_each_field(
        out, [&](auto& field) { field = Make<std::decay_t<decltype(field)>>(random); });
    return out;
  }
}

// --- what a valid message needs beyond its types

void Fix(sequence::SamplingParams& params) {
  std::sort(params.stop_token_ids.begin(), params.stop_token_ids.end());
  params.top_p = 0.5f + params.top_p / 2;
}
void Fix(handoff::Hello& m) {
  m.layout.block_size = 16;
  m.layout.head_dim = 64;
  m.layout.num_layers = 3;
  m.wire_lowest = 1 + m.wire_lowest % 4;
  m.wire_highest = m.wire_lowest + m.wire_highest % 4;
  if (m.role == handoff::Role::kRouter) m.layout = {};
}
void FillTokens(handoff::TokenList& tokens, handoff::HashList& hashes, SplitMix64& random) {
  auto list = std::make_shared<TokenIds>(80);
  for (TokenId& token : *list) token = TokenId(static_cast<std::int32_t>(random.Below(50000)));
  tokens = list;
  hashes = std::make_shared<const std::vector<Hash128>>(5, Make<Hash128>(random));
}
void Fix(handoff::Prefill& m, SplitMix64& random) {
  FillTokens(m.tokens, m.hashes, random);
  m.prompt_tokens = TokenCount(70);
  m.first_position = Position(10);
  Fix(m.params);
}
void Fix(handoff::HandOff& m, SplitMix64& random) {
  FillTokens(m.tokens, m.hashes, random);
  m.prompt_tokens = TokenCount(70);
  m.first_position = Position(9);
  Fix(m.params);
}
void Fix(handoff::Reserve& m, SplitMix64&) {
  m.tokens = TokenCount(100);
  m.hashes = std::make_shared<const std::vector<Hash128>>(6, m.model_instance);
}
void Fix(handoff::Reserved& m, SplitMix64&) {
  m.held = kv::BlockCount(static_cast<std::int32_t>(m.blocks.size() / 2));
}
void Fix(handoff::Tokens& m, SplitMix64&) { m.logprobs.assign(m.tokens.size(), -0.25f); }
void Fix(handoff::Hello& m, SplitMix64&) { Fix(m); }
void Fix(handoff::Heartbeat& m, SplitMix64&) {
  for (auto& metric : m.metrics) metric.name = "leases";
}
template <typename T>
void Fix(T&, SplitMix64&) {}

template <typename T>
T MakeValid(SplitMix64& random) {
  T message = Make<T>(random);
  Fix(message, random);
  return message;
}

template <std::size_t... kIndex>
std::vector<handoff::Message> OneOfEach(SplitMix64& random, std::index_sequence<kIndex...>) {
  std::vector<handoff::Message> out;
  (out.emplace_back(MakeValid<std::variant_alternative_t<kIndex, handoff::Message>>(random)), ...);
  return out;
}
std::vector<handoff::Message> OneOfEach(SplitMix64& random) {
  return OneOfEach(random, std::make_index_sequence<std::variant_size_v<handoff::Message>>());
}

StatusOr<handoff::Message> DecodeBytes(std::string_view bytes) {
  TANDEM_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(bytes));
  return Decode(frame);
}

TEST(WireTest, EveryFieldOfEveryMessageComesBack) {
  const std::uint64_t seed = 7;
  SplitMix64 random(seed);
  for (int round = 0; round < 50; ++round) {
    for (const handoff::Message& message : OneOfEach(random)) {
      const std::string bytes = Encode(message);
      const StatusOr<handoff::Message> back = DecodeBytes(bytes);
      ASSERT_TRUE(back.ok()) << back.status() << " seed " << seed;
      ASSERT_EQ(back->index(), message.index());
      const bool equal = std::visit(
          [&](const auto& m) { return Equal(m, std::get<std::decay_t<decltype(m)>>(*back)); },
          message);
      EXPECT_TRUE(equal) << handoff::MessageName(message) << " seed " << seed;
    }
  }
}

TEST(WireTest, DamagedBytesAreErrorsOrValidMessages) {
  const std::uint64_t seed = 11;
  SplitMix64 random(seed);
  std::int64_t refused = 0;
  for (int round = 0; round < 100; ++round) {
    for (const handoff::Message& message : OneOfEach(random)) {
      std::string bytes = Encode(message);
      const std::uint64_t changes = 1 + random.Below(4);
      for (std::uint64_t i = 0; i < changes; ++i) {
        bytes[random.Below(bytes.size())] = static_cast<char>(random.Next());
      }
      if (random.Below(4) == 0) bytes.resize(random.Below(bytes.size()) + 1);
      const StatusOr<handoff::Message> back = DecodeBytes(bytes);
      if (back.ok()) {
        EXPECT_TRUE(DecodeBytes(Encode(*back)).ok()) << "seed " << seed;
      } else {
        ++refused;
        EXPECT_FALSE(back.status().message().empty());
      }
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(WireTest, RandomBytesAreRefused) {
  SplitMix64 random(13);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random.Below(300), '\0');
    for (char& c : bytes) c = static_cast<char>(random.Next());
    EXPECT_FALSE(DecodeBytes(bytes).ok());
  }
}

TEST(WireTest, UnknownTypeIsUnimplementedAndNamed) {
  const Status status = Decode({.type = "Resume", .body = ""}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.ToString(), HasSubstr("'Resume'"));
  const StatusOr<Frame> frame = ParseFrame(EncodeUnknown("Resume"));
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->type, kUnknownType);
  EXPECT_EQ(*DecodeUnknown(*frame), "Resume");
}

TEST(WireTest, ReasonFromTheFutureIsInternal) {
  std::string bytes = Encode(handoff::Failed{
      .key = {.request = {}, .attempt = handoff::Attempt(1), .placement = handoff::Placement(1)},
      .reason = handoff::Reason::kStale});
  ASSERT_EQ(bytes.back(), static_cast<char>(handoff::Reason::kStale));
  bytes.back() = 100;
  const StatusOr<handoff::Message> back = DecodeBytes(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(std::get<handoff::Failed>(*back).reason, handoff::Reason::kInternal);
}

// Each rule is broken alone in an otherwise valid message; the error names message and field.
template <typename T>
std::string ErrorOf(void (*spoil)(T&)) {
  SplitMix64 random(17);
  T message = MakeValid<T>(random);
  spoil(message);
  const Status status = DecodeBytes(Encode(message)).status();
  return status.ok() ? "accepted" : std::string(FromAbsl(status.message()));
}

TEST(WireTest, BrokenRulesNameMessageAndField) {
  using namespace handoff;
  EXPECT_THAT(ErrorOf<Hello>(+[](Hello& m) { m.incarnation = Incarnation(0); }),
              HasSubstr("Hello: incarnation is 0"));
  EXPECT_THAT(ErrorOf<Hello>(+[](Hello& m) { m.role = static_cast<Role>(9); }),
              HasSubstr("Hello: role is 9"));
  EXPECT_THAT(ErrorOf<Hello>(+[](Hello& m) {
                m.role = Role::kDecode;
                m.layout = {};
              }),
              HasSubstr("Hello: layout"));
  EXPECT_THAT(ErrorOf<Hello>(+[](Hello& m) { m.name = "a\nb"; }),
              HasSubstr("Hello: name has a control character"));
  EXPECT_THAT(ErrorOf<Hello>(+[](Hello& m) { m.name.assign(257, 'x'); }),
              HasSubstr("Hello: name has 257"));
  EXPECT_THAT(ErrorOf<Prefill>(+[](Prefill& m) { m.attempt = Attempt(0); }),
              HasSubstr("Prefill: attempt is 0"));
  EXPECT_THAT(ErrorOf<Prefill>(+[](Prefill& m) { m.first_position = Position(11); }),
              HasSubstr("Prefill: first_position is 11, must be 10..10"));
  EXPECT_THAT(ErrorOf<Prefill>(+[](Prefill& m) { m.prompt_tokens = TokenCount(81); }),
              HasSubstr("Prefill: prompt_tokens is 81"));
  EXPECT_THAT(ErrorOf<Prefill>(+[](Prefill& m) { m.params.top_p = 0; }),
              HasSubstr("Prefill: params: top_p"));
  EXPECT_THAT(ErrorOf<Prefill>(+[](Prefill& m) { m.budget = Duration(-1); }),
              HasSubstr("Prefill: budget is -1"));
  EXPECT_THAT(ErrorOf<Prefill>(+[](Prefill& m) {
                m.tokens = std::make_shared<const TokenIds>(80, TokenId(-1));
              }),
              HasSubstr("Prefill: tokens is -1"));
  EXPECT_THAT(ErrorOf<Prefill>(
                  +[](Prefill& m) { m.hashes = std::make_shared<const std::vector<Hash128>>(6); }),
              HasSubstr("Prefill: hashes has 6"));
  EXPECT_THAT(ErrorOf<HandOff>(
                  +[](HandOff& m) { m.tokens = std::make_shared<const TokenIds>(1, TokenId(1)); }),
              HasSubstr("HandOff: tokens has 1"));
  EXPECT_THAT(ErrorOf<Reserved>(+[](Reserved& m) { m.held = kv::BlockCount(6); }),
              HasSubstr("Reserved: held is 6"));
  EXPECT_THAT(ErrorOf<Reserved>(+[](Reserved& m) { m.blocks.assign(1, kv::BlockId(-2)); }),
              HasSubstr("Reserved: blocks is -2"));
  EXPECT_THAT(ErrorOf<LayerDone>(+[](LayerDone& m) { m.num_layers = 0; }),
              HasSubstr("LayerDone: num_layers is 0"));
  EXPECT_THAT(ErrorOf<LayerDone>(+[](LayerDone& m) { m.first_layer = kv::Layer(-1); }),
              HasSubstr("LayerDone: first_layer is -1"));
  EXPECT_THAT(ErrorOf<Tokens>(+[](Tokens& m) { m.logprobs.push_back(0); }),
              HasSubstr("Tokens: logprobs has"));
  EXPECT_THAT(
      ErrorOf<Tokens>(+[](Tokens& m) { m.finish = static_cast<sequence::FinishReason>(7); }),
      HasSubstr("Tokens: finish is 7"));
}

}  // namespace
}  // namespace tandem::proto
