// What every transport must do, its two ends in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "kv_transfer/create.h"
#include "kv_transfer/loopback/hub.h"
#include "kv_transfer/transfer.h"
#include "tests/integration/transfer/event_log.h"

namespace tandem::transfer {
namespace {

constexpr std::uint64_t kBytes = 8 << 20;
constexpr RegionId kArena{1};
constexpr RegionId kProbe{2};

std::vector<std::byte> RandomBytes(std::uint64_t seed, std::size_t size) {
  std::vector<std::byte> bytes(size);
  SplitMix64 random(seed);
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    const std::uint64_t word = random.Next();
    std::memcpy(&bytes[i], &word, 8);
  }
  return bytes;
}

class Conformance : public ::testing::TestWithParam<Transport> {
 protected:
  std::unique_ptr<Sink> MakeSink(std::uint64_t incarnation = 7) {
    SinkOptions options;
    options.transport = GetParam();
    options.regions = {{kArena, ByteCount(kBytes)}, {kProbe, ByteCount(64 << 10)}};
    options.incarnation = incarnation;
    options.net_device = "lo";
    options.hub = hub_;
    auto sink = CreateSink(options, sink_events_.Sink());
    EXPECT_TRUE(sink.ok()) << sink.status();
    return *std::move(sink);
  }
  std::unique_ptr<Source> MakeSource() {
    SourceOptions options;
    options.transport = GetParam();
    options.memory = bytes_;
    options.net_device = "lo";
    options.hub = hub_;
    auto source = CreateSource(options, source_events_.Sink());
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }
  std::unique_ptr<SourceLink> MakeLink(Source& source, const Sink& sink, LinkId id = LinkId(1)) {
    auto link = source.Connect(id, sink.descriptor());
    EXPECT_TRUE(link.ok()) << link.status();
    return *std::move(link);
  }
  Status FencedStatus(SourceLink& link, const Ticket& ticket) {
    const Cookie cookie(++cookies_);
    if (Status put = link.Fence(ticket, cookie); !put.ok()) return put;
    const auto fenced =
        source_events_.Wait<Fenced>([&](const Fenced& f) { return f.cookie == cookie; });
    if (!fenced.has_value()) return DeadlineExceeded("no Fenced came");
    EXPECT_EQ(fenced->ticket, ticket);
    return fenced->status;
  }
  bool SinkIsChecked(const Sink& sink) { return sink.drain_proof() == DrainProof::kSink; }

  const std::vector<std::byte> bytes_ = RandomBytes(1, kBytes);
  std::shared_ptr<loopback::Hub> hub_ = loopback::MakeHub();
  EventLog<SourceEvent> source_events_;
  EventLog<SinkEvent> sink_events_;
  std::uint64_t cookies_ = 0;
};

// Where the bytes pass through the sink's hands.
class CheckedSinkConformance : public Conformance {};

bool Equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

const Ticket kTicket{11, 12, 13};
const SinkRange kWholeArena{kArena, 0, kBytes};

TEST_P(Conformance, BytesOfManySizesArriveWhereTheyWereSent) {
  auto sink = MakeSink();
  auto source = MakeSource();
  auto link = MakeLink(*source, *sink);
  ASSERT_TRUE(sink->Expect(kTicket, {&kWholeArena, 1}).ok());
  std::vector<std::byte> expected(kBytes);
  SplitMix64 random(2);
  // Disjoint slots of 64 kB; each gets a span of random size at a random place.
  for (std::uint64_t slot = 0; slot < kBytes / 65536; ++slot) {
    const std::uint64_t length = slot % 3 == 0 ? 12288 : 1 + random.Below(65536);
    const std::uint64_t to = slot * 65536 + random.Below(65536 - length + 1);
    const std::uint64_t from = random.Below(kBytes - length + 1);
    const Write write{from, kArena, to, length};
    ASSERT_TRUE(link->Put(kTicket, {&write, 1}).ok());
    std::memcpy(&expected[to], &bytes_[from], length);
  }
  ASSERT_TRUE(FencedStatus(*link, kTicket).ok());
  EXPECT_TRUE(Equal(sink->memory(kArena), expected));
}

TEST_P(Conformance, OneLongWriteArrives) {
  auto sink = MakeSink();
  auto source = MakeSource();
  auto link = MakeLink(*source, *sink);
  ASSERT_TRUE(sink->Expect(kTicket, {&kWholeArena, 1}).ok());
  const Write write{0, kArena, 0, kBytes};
  ASSERT_TRUE(link->Put(kTicket, {&write, 1}).ok());
  ASSERT_TRUE(FencedStatus(*link, kTicket).ok());
  EXPECT_TRUE(Equal(sink->memory(kArena), bytes_));
  EXPECT_EQ(link->stats().written.value(), static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(link->stats().queued.value(), 0);
}

TEST_P(Conformance, EveryFenceIsAnsweredInOrder) {
  auto sink = MakeSink();
  auto source = MakeSource();
  auto link = MakeLink(*source, *sink);
  ASSERT_TRUE(sink->Expect(kTicket, {&kWholeArena, 1}).ok());
  for (std::uint64_t i = 0; i < 30; ++i) {
    const Write write{i * 65536, kArena, i * 65536, 65536};
    ASSERT_TRUE(link->Put(kTicket, {&write, 1}).ok());
    ASSERT_TRUE(link->Fence(kTicket, Cookie(i)).ok());
  }
  for (std::uint64_t i = 0; i < 30; ++i) {
    const auto fenced = source_events_.Wait<Fenced>();
    ASSERT_TRUE(fenced.has_value());
    EXPECT_EQ(fenced->cookie.value(), i);
    EXPECT_TRUE(fenced->status.ok()) << fenced->status;
    EXPECT_TRUE(Equal(sink->memory(kArena).subspan(i * 65536, 65536),
                      std::span(bytes_).subspan(i * 65536, 65536)));
  }
}

TEST_P(Conformance, AReadyEventComesBeforeAnyFence) {
  auto sink = MakeSink();
  auto source = MakeSource();
  auto link = MakeLink(*source, *sink, LinkId(42));
  ASSERT_TRUE(sink->Expect(kTicket, {&kWholeArena, 1}).ok());
  ASSERT_TRUE(FencedStatus(*link, kTicket).ok());
  EXPECT_EQ(source_events_.Count<LinkReady>(), 1u);
  EXPECT_EQ(source_events_.Wait<LinkReady>()->link, LinkId(42));
}

TEST_P(Conformance, WritesOutsideEitherSideAreRefused) {
  auto sink = MakeSink();
  auto source = MakeSource();
  auto link = MakeLink(*source, *sink);
  const std::uint64_t huge = ~std::uint64_t{0};
  for (const Write& write : std::vector<Write>{{kBytes - 10, kArena, 0, 11},
                                               {0, kArena, kBytes - 10, 11},
                                               {0, kProbe, 0, 65537},
                                               {0, RegionId(9), 0, 1},
                                               {huge, kArena, 0, 2},
                                               {0, kArena, huge, 2},
                                               {0, kArena, 0, huge}}) {
    EXPECT_EQ(link->Put(kTicket, {&write, 1}).code(), absl::StatusCode::kInvalidArgument);
  }
  for (const SinkRange& range : std::vector<SinkRange>{
           {kArena, kBytes - 1, 2}, {kArena, huge, 1}, {kArena, 1, huge}, {RegionId(9), 0, 1}}) {
    EXPECT_EQ(sink->Expect(kTicket, {&range, 1}).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(CheckedSinkConformance, AStaleTicketIsDroppedAndReported) {
  auto sink = MakeSink();
  ASSERT_EQ(sink->drain_proof(), DrainProof::kSink);
  auto source = MakeSource();
  auto link = MakeLink(*source, *sink);
  const Ticket stale{11, 12, 12};
  ASSERT_TRUE(sink->Expect(kTicket, {&kWholeArena, 1}).ok());
  const Write write{0, kArena, 0, 12288};
  ASSERT_TRUE(link->Put(stale, {&write, 1}).ok());
  EXPECT_EQ(FencedStatus(*link, stale).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Equal(sink->memory(kArena), std::vector<std::byte>(kBytes)));
  EXPECT_EQ(sink->stats().dropped.value(), 12288);
  // The link is still good for others.
  ASSERT_TRUE(link->Put(kTicket, {&write, 1}).ok());
  EXPECT_TRUE(FencedStatus(*link, kTicket).ok());
  EXPECT_EQ(sink->Received(kTicket).value(), 12288);
  EXPECT_EQ(sink->stats().received.value(), 12288);
}

TEST_P(CheckedSinkConformance, BytesOutsideATicketsRangesAreDropped) {
  auto sink = MakeSink();
  ASSERT_EQ(sink->drain_proof(), DrainProof::kSink);
  auto source = MakeSource();
  auto link = MakeLink(*source, *sink);
  const std::vector<SinkRange> ranges = {{kArena, 0, 4096}, {kArena, 8192, 4096}};
  ASSERT_TRUE(sink->Expect(kTicket, ranges).ok());
  const Write across{0, kArena, 0, 12288};
  ASSERT_TRUE(link->Put(kTicket, {&across, 1}).ok());
  EXPECT_FALSE(FencedStatus(*link, kTicket).ok());
  EXPECT_TRUE(Equal(sink->memory(kArena), std::vector<std::byte>(kBytes)));
  const std::vector<Write> inside = {{0, kArena, 0, 4096}, {0, kArena, 8192, 4096}};
  ASSERT_TRUE(link->Put(kTicket, inside).ok());
  EXPECT_TRUE(FencedStatus(*link, kTicket).ok());
  EXPECT_TRUE(Equal(sink->memory(kArena).subspan(8192, 4096), std::span(bytes_).first(4096)));
}

TEST_P(CheckedSinkConformance, AfterForgottenNothingIsWritten) {
  auto sink = MakeSink();
  ASSERT_EQ(sink->drain_proof(), DrainProof::kSink);
  auto source = MakeSource();
  auto link = MakeLink(*source, *sink);
  ASSERT_TRUE(sink->Expect(kTicket, {&kWholeArena, 1}).ok());
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Write write{0, kArena, 0, kBytes};
    ASSERT_TRUE(link->Put(kTicket, {&write, 1}).ok());
  }
  sink->Forget(kTicket);
  const auto forgotten = sink_events_.Wait<Forgotten>();
  ASSERT_TRUE(forgotten.has_value());
  EXPECT_EQ(forgotten->ticket, kTicket);
  std::memset(sink->memory(kArena).data(), 0, kBytes);
  (void)FencedStatus(*link, kTicket);  // everything has been dropped by now
  EXPECT_TRUE(Equal(sink->memory(kArena), std::vector<std::byte>(kBytes)));
}

TEST_P(Conformance, AfterDrainedNothingOfTheTicketIsWritten) {
  auto sink = MakeSink();
  auto source = MakeSource();
  auto link = MakeLink(*source, *sink);
  ASSERT_TRUE(sink->Expect(kTicket, {&kWholeArena, 1}).ok());
  for (std::uint64_t i = 0; i < 64; ++i) {
    const Write write{0, kArena, 0, kBytes};
    ASSERT_TRUE(link->Put(kTicket, {&write, 1}).ok());
  }
  ASSERT_TRUE(link->Fence(kTicket, Cookie(99)).ok());
  link->Abort(kTicket);
  const auto drained = source_events_.Wait<Drained>();
  ASSERT_TRUE(drained.has_value());
  EXPECT_EQ(drained->ticket, kTicket);
  if (!SinkIsChecked(*sink)) {
    std::memset(sink->memory(kArena).data(), 0, kBytes);
  }
  // Others still flow, behind it.
  const Ticket next{1, 2, 3};
  ASSERT_TRUE(sink->Expect(next, {&kWholeArena, 1}).ok());
  ASSERT_TRUE(FencedStatus(*link, next).ok());
  EXPECT_EQ(source_events_.Count<Fenced>(), 0u);
  if (!SinkIsChecked(*sink)) {
    EXPECT_TRUE(Equal(sink->memory(kArena), std::vector<std::byte>(kBytes)));
  }
  EXPECT_EQ(link->stats().queued.value(), 0);
}

TEST_P(Conformance, AbortOfAnUnknownTicketIsDrainedAtOnce) {
  auto sink = MakeSink();
  auto source = MakeSource();
  auto link = MakeLink(*source, *sink);
  link->Abort(kTicket);
  EXPECT_TRUE(source_events_.Wait<Drained>().has_value());
}

TEST_P(Conformance, TicketsAndLinksDoNotMix) {
  auto sink = MakeSink();
  auto source = MakeSource();
  auto other_source = MakeSource();
  auto a = MakeLink(*source, *sink, LinkId(1));
  auto b = MakeLink(*other_source, *sink, LinkId(2));
  std::vector<std::byte> expected(kBytes);
  for (std::uint64_t i = 0; i < 64; ++i) {
    const Ticket ticket{5, i, 1};
    const SinkRange range{kArena, i * 131072, 131072};
    ASSERT_TRUE(sink->Expect(ticket, {&range, 1}).ok());
    const std::uint64_t from = (63 - i) * 131072;
    for (std::uint64_t part = 0; part < 131072; part += 8192) {
      const Write write{from + part, kArena, i * 131072 + part, 8192};
      ASSERT_TRUE((i % 2 == 0 ? a : b)->Put(ticket, {&write, 1}).ok());
    }
    std::memcpy(&expected[i * 131072], &bytes_[from], 131072);
  }
  for (std::uint64_t i = 0; i < 64; ++i) {
    EXPECT_TRUE(FencedStatus(i % 2 == 0 ? *a : *b, Ticket{5, i, 1}).ok());
  }
  EXPECT_TRUE(Equal(sink->memory(kArena), expected));
}

TEST_P(Conformance, AFullQueueRefusesWholePutsAndRecovers) {
  auto sink = MakeSink();
  SourceOptions options;
  options.transport = GetParam();
  options.memory = bytes_;
  options.net_device = "lo";
  options.hub = hub_;
  options.max_queued_writes = 8;
  auto source = CreateSource(options, source_events_.Sink());
  ASSERT_TRUE(source.ok()) << source.status();
  auto link = MakeLink(**source, *sink);
  ASSERT_TRUE(sink->Expect(kTicket, {&kWholeArena, 1}).ok());
  std::vector<Write> nine;
  for (std::uint64_t i = 0; i < 9; ++i) nine.push_back({i * 8192, kArena, i * 16384, 4096});
  EXPECT_EQ(link->Put(kTicket, nine).code(), absl::StatusCode::kResourceExhausted);
  nine.pop_back();
  EXPECT_TRUE(link->Put(kTicket, nine).ok());
  EXPECT_TRUE(FencedStatus(*link, kTicket).ok());
  EXPECT_TRUE(link->Put(kTicket, nine).ok());
  EXPECT_TRUE(FencedStatus(*link, kTicket).ok());
}

TEST_P(Conformance, AnotherIncarnationIsNeverWritten) {
  auto sink = MakeSink(7);
  auto source = MakeSource();
  SinkDescriptor wrong = sink->descriptor();
  wrong.incarnation = 8;
  auto link = source->Connect(LinkId(1), wrong);
  if (link.ok()) {
    const Write write{0, kArena, 0, 4096};
    (void)(*link)->Put(kTicket, {&write, 1});
    const auto failed = source_events_.Wait<LinkFailed>();
    ASSERT_TRUE(failed.has_value());
    EXPECT_FALSE(failed->reason.ok());
    EXPECT_EQ((*link)->Put(kTicket, {&write, 1}), failed->reason);
  }
  EXPECT_EQ(source_events_.Count<LinkReady>(), 0u);
  EXPECT_TRUE(Equal(sink->memory(kArena), std::vector<std::byte>(kBytes)));
}

TEST_P(Conformance, ADescriptorThatIsNotOneIsRefused) {
  auto sink = MakeSink();
  auto source = MakeSource();
  std::vector<SinkDescriptor> bad(6, sink->descriptor());
  bad[0].transport = GetParam() == Transport::kLoopback ? Transport::kUcxTcp : Transport::kLoopback;
  bad[1].address = "nonsense";
  bad[2].incarnation = 0;
  bad[3].regions[0].length = ByteCount(-1);
  bad[4].address.clear();
  bad[5].regions[0].length = ByteCount(std::int64_t{1} << 40);
  for (std::size_t i = 0; i < bad.size(); ++i) {
    auto link = source->Connect(LinkId(i), bad[i]);
    if (link.ok()) {
      const auto failed =
          source_events_.Wait<LinkFailed>([&](const LinkFailed& f) { return f.link == LinkId(i); });
      EXPECT_TRUE(failed.has_value()) << i;
    }
  }
  EXPECT_EQ(source_events_.Count<LinkReady>(), 0u);
}

TEST_P(Conformance, LinksCloseWithWritesOutstanding) {
  auto sink = MakeSink();
  auto source = MakeSource();
  ASSERT_TRUE(sink->Expect(kTicket, {&kWholeArena, 1}).ok());
  for (std::uint64_t i = 0; i < 10; ++i) {
    auto link = MakeLink(*source, *sink, LinkId(i));
    for (int k = 0; k < 8; ++k) {
      const Write write{0, kArena, 0, kBytes};
      ASSERT_TRUE(link->Put(kTicket, {&write, 1}).ok());
    }
    if (i % 2 == 0) {
      ASSERT_TRUE(FencedStatus(*link, kTicket).ok());
    }
  }
}

TEST_P(CheckedSinkConformance, ADestroyedSinkFailsItsLinks) {
  auto sink = MakeSink();
  auto source = MakeSource();
  auto link = MakeLink(*source, *sink);
  ASSERT_TRUE(sink->Expect(kTicket, {&kWholeArena, 1}).ok());
  ASSERT_TRUE(FencedStatus(*link, kTicket).ok());
  sink.reset();
  const Write write{0, kArena, 0, kBytes};
  Status put;
  while (put.ok()) put = link->Put(kTicket, {&write, 1});
  EXPECT_TRUE(source_events_.Wait<LinkFailed>().has_value() ||
              put.code() == absl::StatusCode::kResourceExhausted);
}

std::string NameOf(const ::testing::TestParamInfo<Transport>& info) {
  std::string name(ToString(info.param));
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Transports, Conformance,
                         ::testing::Values(Transport::kLoopback, Transport::kUcxShm,
                                           Transport::kUcxTcp),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Transports, CheckedSinkConformance,
                         ::testing::Values(Transport::kLoopback, Transport::kUcxTcp), NameOf);

}  // namespace
}  // namespace tandem::transfer
