#include "router/router_flags.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem::router {
namespace {

RouterFlags Good() {
  RouterFlags flags;
  flags.model = "m.gguf";
  flags.prefill = {"127.0.0.1:1"};
  flags.decode = {"127.0.0.1:2", "[::1]:3"};
  return flags;
}

std::string Complaint(const RouterFlags& flags) {
  return std::string(FromAbsl(flags.Validate().message()));
}

TEST(RouterFlagsTest, NamesWhatIsMissingOrWrong) {
  EXPECT_EQ(Complaint(Good()), "");
  RouterFlags flags = Good();
  flags.model.clear();
  EXPECT_NE(Complaint(flags).find("--model"), std::string::npos);
  flags = Good();
  flags.prefill.clear();
  EXPECT_NE(Complaint(flags).find("--prefill"), std::string::npos);
  flags = Good();
  flags.decode = {"nonsense"};
  EXPECT_NE(Complaint(flags).find("--decode"), std::string::npos);
  EXPECT_NE(Complaint(flags).find("nonsense"), std::string::npos);
  flags = Good();
  flags.max_body = ByteCount(1 << 30);
  EXPECT_NE(Complaint(flags).find("--max-bodies"), std::string::npos);
}

TEST(RouterFlagsTest, APublicAddressNeedsAKeyOrTheFlag) {
  RouterFlags flags = Good();
  flags.host = "0.0.0.0";
  EXPECT_NE(Complaint(flags).find("--api-key"), std::string::npos);
  flags.api_keys = {"k"};
  EXPECT_EQ(Complaint(flags), "");
  flags.api_keys.clear();
  flags.allow_public = true;
  EXPECT_EQ(Complaint(flags), "");
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    flags = Good();
    flags.host = host;
    EXPECT_EQ(Complaint(flags), "") << host;
  }
}

TEST(RouterFlagsTest, HelpFitsOneScreen) {
  RouterFlags flags;
  config::ProgramOptions options("tandem-router", "purpose");
  flags.AddTo(options);
  const std::string help = options.Help();
  EXPECT_LE(std::count(help.begin(), help.end(), '\n'), 40) << help;
  for (std::size_t at = 0; at < help.size();) {
    std::size_t end = std::min(help.find('\n', at), help.size());
    EXPECT_LE(end - at, 100u) << help.substr(at, end - at);
    at = end + 1;
  }
}

}  // namespace
}  // namespace tandem::router
