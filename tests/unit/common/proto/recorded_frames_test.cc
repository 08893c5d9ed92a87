// Frames as they were written by the released wire version 1: a later version must read and write
// them all the same. frames_v1.txt has a line for each: the message's name and the frame in
// hexadecimal. A line once in there is never changed; a new message gets a new line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "common/proto/wire.h"
#include "tests/unit/common/proto/equal.h"

namespace tandem::proto {
namespace {

using handoff::Attempt;
using handoff::Incarnation;
using handoff::Placement;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr const char* kFrames = "tests/unit/common/proto/frames_v1.txt";

std::map<std::string, std::string> ReadFrames() {
  std::map<std::string, std::string> frames;
  std::ifstream file(kFrames);
  std::string name, hex;
  while (file >> name >> hex) {
    std::string bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
      bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    frames.emplace(name, bytes);
  }
  return frames;
}

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (unsigned char byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

// --- the messages: every field has a value of its own

Hash128 Hash(std::uint8_t first) {
  Hash128 hash;
  for (std::size_t i = 0; i < hash.bytes.size(); ++i) {
    hash.bytes[i] = static_cast<std::uint8_t>(first + i);
  }
  return hash;
}
handoff::HashList Hashes() {
  return std::make_shared<const std::vector<Hash128>>(std::vector{Hash(0x10), Hash(0x20)});
}
handoff::TokenList TokensOf(std::int32_t count) {
  TokenIds tokens;
  for (std::int32_t i = 0; i < count; ++i) tokens.push_back(TokenId(1000 + 7 * i));
  return std::make_shared<const TokenIds>(tokens);
}
handoff::RequestId Request() { return {Incarnation(0x1122334455667788), 42}; }
handoff::PlacementKey Key() { return {Request(), Attempt(2), Placement(3)}; }
sequence::SamplingParams Params() {
  sequence::SamplingParams params;
  params.temperature = 0.75f;
  params.top_k = 40;
  params.top_p = 0.5f;
  params.min_p = 0.25f;
  params.seed = 0x0123456789abcdef;
  params.max_tokens = TokenCount(64);
  params.stop_token_ids = {TokenId(2), TokenId(128001)};
  return params;
}
handoff::PhaseTimes Times() {
  handoff::PhaseTimes times;
  times.queued = milliseconds(1);
  times.prefill = milliseconds(2);
  times.transfer = milliseconds(3);
  times.transfer_exposed = milliseconds(4);
  times.transfer_bytes = ByteCount(5);
  times.computed_tokens = TokenCount(6);
  times.cached_tokens = TokenCount(7);
  times.held_tokens = TokenCount(8);
  return times;
}

handoff::Hello TheHello() {
  handoff::Hello m;
  m.role = handoff::Role::kDecode;
  m.epoch = 3;
  m.name = "decode-1";
  m.incarnation = Incarnation(0x8877665544332211);
  m.wire_lowest = 1;
  m.wire_highest = 2;
  m.features = 5;
  m.model_instance = Hash(0x40);
  m.layout = {.num_layers = 30,
              .num_kv_heads = 3,
              .head_dim = 64,
              .block_size = 16,
              .dtype = kv::KvDtype::kBf16};
  m.numerics = "avx512bf16";
  m.checksum = "span64";
  m.capacity = {kv::BlockCount(512), TokenCount(8192), 64};
  m.rpc_address = "10.0.0.2:7702";
  handoff::RankInfo rank;
  rank.transport = "ucx-shm";
  rank.address = std::string("\x01\x00\xff", 3);
  rank.host_id = "host-a";
  rank.pid_namespace = 4026531836;
  rank.pid = 4711;
  rank.pid_start_time = 123456;
  rank.regions.push_back({1, ByteCount(1 << 20), handoff::MemoryType::kHost, "key"});
  m.ranks.push_back(rank);
  return m;
}
handoff::Heartbeat TheHeartbeat() {
  handoff::Heartbeat m;
  m.queued = 1;
  m.running = 2;
  m.queued_tokens = TokenCount(3);
  m.free_blocks = kv::BlockCount(4);
  m.quarantined_blocks = kv::BlockCount(5);
  m.draining = true;
  m.step_number = 6;
  m.step_running_for = milliseconds(7);
  m.fit = {0.5, 0.25, 0.125};
  m.usable_sinks = {"decode-1", "decode-2"};
  m.cached_added = {Hash(0x50)};
  m.cached_removed = {Hash(0x60), Hash(0x70)};
  m.metrics = {{"leases", 9}};
  return m;
}
handoff::Prefill ThePrefill() {
  handoff::Prefill m;
  m.request = Request();
  m.attempt = Attempt(2);
  m.model_instance = Hash(0x40);
  m.tokens = TokensOf(34);
  m.prompt_tokens = TokenCount(32);
  m.hashes = Hashes();
  m.params = Params();
  m.ranked_sinks = {"decode-2", "decode-1"};
  m.budget = milliseconds(20000);
  m.first_position = Position(2);
  return m;
}
handoff::HandOff TheHandOff() {
  handoff::HandOff m;
  m.key = Key();
  m.first_position = Position(2);
  m.prompt_tokens = TokenCount(32);
  m.tokens = TokensOf(35);
  m.hashes = Hashes();
  m.params = Params();
  m.first_logprob = -0.5f;
  m.total_bytes = ByteCount(123456);
  m.total_layer_blocks = 90;
  return m;
}

std::vector<handoff::Message> FirstVersion() {
  using namespace handoff;
  std::vector<Message> all;
  all.emplace_back(TheHello());
  all.emplace_back(HelloRefused{"layout", "block_size is 32, here 16"});
  all.emplace_back(TheHeartbeat());
  all.emplace_back(Ping{0xfeed});
  all.emplace_back(Pong{0xbeef});
  all.emplace_back(Drain{milliseconds(30000)});
  all.emplace_back(Peers{{{"decode-1", "10.0.0.2:7702", Incarnation(7)}}});
  all.emplace_back(ThePrefill());
  all.emplace_back(Cancel{{Request(), Attempt(2), kAllPlacements}});
  all.emplace_back(Credit{Key(), 128});
  all.emplace_back(PlacementNoted{Key()});
  all.emplace_back(PlacementRefused{Key(), "no live connection to this node"});
  all.emplace_back(Accepted{Request(), Attempt(2)});
  all.emplace_back(Refused{Request(), Attempt(2), Reason::kDraining});
  all.emplace_back(Placed{Key(), "decode-1"});
  all.emplace_back(FirstToken{Request(), Attempt(2), Position(2), TokenId(77), -0.25f,
                              sequence::FinishReason::kStop, Times()});
  all.emplace_back(Tokens{Key(),
                          Position(3),
                          {TokenId(78), TokenId(79)},
                          {-1.5f, -0.125f},
                          sequence::FinishReason::kLength});
  all.emplace_back(TransferReport{Key(), Times()});
  all.emplace_back(Failed{Key(), Reason::kNoSink});
  all.emplace_back(handoff::Cancelled{Key()});
  all.emplace_back(Probe{11, ByteCount(4096), 0xdeadbeef});
  all.emplace_back(Probed{11, true});
  all.emplace_back(Reserve{Key(), Hash(0x40), TokenCount(34), TokenCount(62), Hashes()});
  all.emplace_back(Reserved{Key(),
                            {kv::BlockId(9), kv::BlockId(300), kv::BlockId(10)},
                            kv::BlockCount(1),
                            milliseconds(5000)});
  all.emplace_back(ReserveRefused{Key(), Reason::kFull, kv::BlockCount(2)});
  all.emplace_back(
      LayerDone{Key(), kv::Layer(4), 2, 1, 3, 33, ByteCount(98304), 0x0102030405060708});
  all.emplace_back(TheHandOff());
  all.emplace_back(Joined{Key()});
  all.emplace_back(Rejected{Key(), Reason::kCorrupt});
  all.emplace_back(Renew{{Key()}});
  all.emplace_back(RenewAnswer{{Key()}});
  all.emplace_back(Release{Key(), true});
  all.emplace_back(Revoke{Key()});
  return all;
}

StatusOr<handoff::Message> DecodeFrame(const std::string& bytes) {
  TANDEM_ASSIGN_OR_RETURN(const Frame frame, ParseFrame(bytes));
  return Decode(frame);
}

TEST(RecordedFrames, EveryMessageIsWrittenAsItWas) {
  const auto frames = ReadFrames();
  for (const handoff::Message& message : FirstVersion()) {
    const std::string name(handoff::MessageName(message));
    const std::string bytes = Encode(message);
    const auto recorded = frames.find(name);
    if (recorded == frames.end()) {
      ADD_FAILURE() << kFrames << " has no line for it:\n" << name << " " << Hex(bytes);
      continue;
    }
    EXPECT_EQ(Hex(bytes), Hex(recorded->second)) << name;
  }
}

TEST(RecordedFrames, EveryMessageIsReadAsItWas) {
  const auto frames = ReadFrames();
  const auto messages = FirstVersion();
  ASSERT_EQ(frames.size(), messages.size()) << kFrames;
  for (const handoff::Message& message : messages) {
    const std::string name(handoff::MessageName(message));
    ASSERT_TRUE(frames.contains(name)) << name;
    const StatusOr<handoff::Message> back = DecodeFrame(frames.at(name));
    ASSERT_TRUE(back.ok()) << back.status();
    ASSERT_EQ(back->index(), message.index()) << name;
    EXPECT_TRUE(std::visit(
        [&](const auto& m) { return Equal(m, std::get<std::decay_t<decltype(m)>>(*back)); },
        message))
        << name;
  }
}

// What a later version may add behind the known fields: number 1000, a varint, a fixed64 and bytes.
TEST(RecordedFrames, UnknownFieldsAreIgnored) {
  const std::string varint("\xc0\x3e\x07", 3);
  const std::string fixed("\xc1\x3e\x01\x02\x03\x04\x05\x06\x07\x08", 10);
  const std::string bytes("\xc2\x3e\x03new", 6);
  for (const auto& [name, recorded] : ReadFrames()) {
    StatusOr<Frame> frame = ParseFrame(recorded);
    ASSERT_TRUE(frame.ok()) << name;
    const StatusOr<handoff::Message> plain = Decode(*frame);
    frame->body += varint + fixed + bytes;
    const StatusOr<handoff::Message> later = Decode(*frame);
    ASSERT_TRUE(later.ok()) << name << ": " << later.status();
    EXPECT_EQ(Encode(*later), Encode(*plain)) << name;
    EXPECT_TRUE(DecodeFrame(recorded + varint).ok()) << name << ": in the frame itself";
  }
}

TEST(RecordedFrames, AnUnknownTypeIsRefusedByName) {
  // A frame of type "Resume" with the body of a PlacementKey.
  const std::string later("\x0a\x06Resume\x12\x02\x10\x02", 12);
  const StatusOr<Frame> frame = ParseFrame(later);
  ASSERT_TRUE(frame.ok());
  const Status status = Decode(*frame).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.ToString(), HasSubstr("'Resume'"));
  EXPECT_EQ(Hex(EncodeUnknown("Resume")), "0a07556e6b6e6f776e12080a06526573756d65");
}

}  // namespace
}  // namespace tandem::proto
