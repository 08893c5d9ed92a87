#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "common/config/nearest.h"
#include "common/config/program_options.h"

namespace tandem::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ProgramOptionsTest : public ::testing::Test {
 protected:
  ProgramOptionsTest() {
    options_.Add("port", "PORT", "TCP port of the API", Int(&port_, 0, 65535));
    options_.Add("kv-memory", "SIZE", "memory for KV blocks", Bytes(&kv_memory_));
    options_.Add("kv-transport", "NAME", "how KV travels",
                 Choice(&transport_, {"ucx-shm", "ucx-tcp", "loopback"}));
    options_.Add("deadline", "TIME", "default deadline of a request", Seconds(&deadline_));
    options_.Add("decode", "HOST:PORT,…", "decode nodes", List(&nodes_));
    options_.Add("verbose", "", "say more", Switch(&verbose_));
  }
  ~ProgramOptionsTest() override {
    if (!file_.empty()) ::unlink(file_.c_str());
  }

  // The error's text, or "".
  std::string Parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "test");
    auto outcome = options_.Parse(static_cast<int>(arguments.size()), arguments.data());
    if (!outcome.ok()) return std::string(outcome.status().message());
    EXPECT_EQ(*outcome, ProgramOptions::Outcome::kRun);
    return "";
  }
  const char* File(const std::string& text) {
    file_ = std::string(::testing::TempDir()) + "tandem-config-" + std::to_string(::getpid());
    std::ofstream(file_) << text;
    return file_.c_str();
  }

  int port_ = 8000;
  ByteCount kv_memory_{std::int64_t{1} << 30};
  std::string transport_ = "ucx-shm";
  Duration deadline_ = std::chrono::minutes(10);
  std::vector<std::string> nodes_;
  bool verbose_ = false;
  std::string file_;
  ProgramOptions options_{"test", "Tests."};
};

TEST_F(ProgramOptionsTest, ReadsEveryKindOfFlag) {
  EXPECT_EQ(Parse({"--port", "1234", "--kv-memory=1.5G", "--kv-transport", "ucx-tcp", "--deadline",
                   "250ms", "--decode", "a:1,b:2", "--decode", "c:3", "--verbose"}),
            "");
  EXPECT_EQ(port_, 1234);
  EXPECT_EQ(kv_memory_.value(), std::int64_t{3} << 29);
  EXPECT_EQ(transport_, "ucx-tcp");
  EXPECT_EQ(deadline_, std::chrono::milliseconds(250));
  EXPECT_THAT(nodes_, ElementsAre("a:1", "b:2", "c:3"));
  EXPECT_TRUE(verbose_);
}

TEST_F(ProgramOptionsTest, ReadsEveryKindOfKeyAndTheCommandLineWins) {
  EXPECT_EQ(
      Parse({"--port", "1", "--config",
             File("port = 2\nkv-memory = \"64M\"\nkv-transport = \"loopback\"\ndeadline = \"2m\"\n"
                  "decode = [\"a:1\", \"b:2\"]\nverbose = true\n")}),
      "");
  EXPECT_EQ(port_, 1);
  EXPECT_EQ(kv_memory_.value(), 64 << 20);
  EXPECT_EQ(transport_, "loopback");
  EXPECT_EQ(deadline_, std::chrono::minutes(2));
  EXPECT_THAT(nodes_, ElementsAre("a:1", "b:2"));
  EXPECT_TRUE(verbose_);
}

TEST_F(ProgramOptionsTest, UnknownFlagNamesTheNearest) {
  EXPECT_THAT(Parse({"--prot", "1"}),
              HasSubstr("unknown argument '--prot'; did you mean '--port'?"));
}

TEST_F(ProgramOptionsTest, UnknownKeyNamesFileAndNearest) {
  const std::string error = Parse({"--config", File("kv_memory = \"1G\"\n")});
  EXPECT_THAT(error, HasSubstr(file_));
  EXPECT_THAT(error, HasSubstr("unknown key 'kv_memory'; did you mean 'kv-memory'?"));
}

TEST_F(ProgramOptionsTest, UnknownWordNamesTheNearest) {
  EXPECT_THAT(
      Parse({"--kv-transport", "ucx-shmm"}),
      HasSubstr("--kv-transport is 'ucx-shmm', must be one of ucx-shm, ucx-tcp, loopback; did you "
                "mean 'ucx-shm'?"));
}

TEST_F(ProgramOptionsTest, BadValuesNameFlagValueAndWhatIsValid) {
  EXPECT_THAT(Parse({"--port", "70000"}),
              HasSubstr("--port is '70000', must be a whole number 0..65535"));
  EXPECT_THAT(Parse({"--kv-memory", "12Q"}), HasSubstr("--kv-memory is '12Q', must be a size"));
  EXPECT_THAT(Parse({"--kv-memory", "-1"}), HasSubstr("--kv-memory"));
  EXPECT_THAT(Parse({"--kv-memory", "nan"}), HasSubstr("--kv-memory"));
  EXPECT_THAT(Parse({"--kv-memory", "99999999T"}), HasSubstr("--kv-memory"));
  EXPECT_THAT(Parse({"--deadline", "5"}), HasSubstr("--deadline is '5', must be a time"));
  EXPECT_THAT(Parse({"--decode", "a,,b"}), HasSubstr("empty entry"));
}

TEST_F(ProgramOptionsTest, MissingFileIsNamed) {
  EXPECT_THAT(Parse({"--config", "/no/such.toml"}), HasSubstr("/no/such.toml"));
}

TEST_F(ProgramOptionsTest, HelpShowsDefaultsWithUnitsInHundredColumns) {
  const std::string help = options_.Help();
  for (const char* part : {"(8000)", "(1GiB)", "(10m)", "ucx-shm, ucx-tcp, loopback (ucx-shm)"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
  for (std::size_t at = 0; at < help.size();) {
    const std::size_t end = std::min(help.find('\n', at), help.size());
    EXPECT_LE(end - at, 110u) << help.substr(at, end - at);  // … and — are three bytes
    at = end + 1;
  }
}

TEST(Nearest, FindsTyposAndIgnoresStrangers) {
  const std::vector<std::string> words = {"prefill", "decode", "router"};
  EXPECT_EQ(Nearest("prefil", words), "prefill");
  EXPECT_EQ(Nearest("DECODE", words), "decode");
  EXPECT_EQ(Nearest("dceode", words), "decode");
  EXPECT_EQ(Nearest("zebra", words), std::nullopt);
  EXPECT_EQ(Nearest(std::string(100000, 'x'), words), std::nullopt);
}

}  // namespace
}  // namespace tandem::config
