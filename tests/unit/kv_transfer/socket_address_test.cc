#include "kv_transfer/ucx/socket_address.h"

#include <gtest/gtest.h>

namespace tandem::transfer::ucx {
namespace {

TEST(SocketAddress, ParsesWhatItPrints) {
  for (const char* text : {"127.0.0.1:4711", "10.1.2.3:0", "[::1]:65535"}) {
    const auto address = SocketAddress::Parse(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ToString(), text);
  }
}

TEST(SocketAddress, RefusesWhatIsNone) {
  for (const char* text : {"", ":", "1.2.3.4", "1.2.3.4:", "name:80", "1.2.3.4:99999", "[]:1",
                           "1.2.3.4:-1", "[::1:5"}) {
    EXPECT_FALSE(SocketAddress::Parse(text).ok()) << text;
  }
  EXPECT_FALSE(SocketAddress::Parse(std::string(100'000, '1') + ":1").ok());
}

TEST(SocketAddress, FindsTheLoopbackAndNamesWhatThereIs) {
  const auto loopback = SocketAddress::OfDevice("lo");
  ASSERT_TRUE(loopback.ok()) << loopback.status();
  EXPECT_EQ(loopback->ToString(), "127.0.0.1:0");
  EXPECT_TRUE(SocketAddress::OfDevice("").ok());
  const auto none = SocketAddress::OfDevice("nosuch0");
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(none.status().message().find("lo"), absl::string_view::npos);
}

}  // namespace
}  // namespace tandem::transfer::ucx
