#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/serve/ask.h"
#include "deploy/serve/serve_options.h"

namespace tandem::deploy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Error(const Status& status) { return std::string(status.message()); }

TEST(ServeOptions, NamesWhatIsMissingOrContradicts) {
  ServeOptions options;
  EXPECT_THAT(Error(options.Validate()), HasSubstr("--model is missing"));
  options.model = "/no/such/model.gguf";
  EXPECT_THAT(Error(options.Validate()), HasSubstr("/no/such/model.gguf"));
  options.model = "/";
  options.once = true;
  EXPECT_THAT(Error(options.Validate()), HasSubstr("--once needs --ask"));
}

TEST(ServeOptions, CpusAreAListOrAWord) {
  ServeOptions options;
  options.model = "/";
  options.kv_transport = "ucx-tcp";
  for (const char* good : {"", "any", "auto"}) {
    options.cpus = good;
    EXPECT_TRUE(options.Validate().ok()) << good;
  }
  options.cpus = "none";
  EXPECT_THAT(options.Validate().ToString(), HasSubstr("--cpus: 'none'"));
}

TEST(ServeOptions, TooLittleSharedMemoryIsFoundWithAdvice) {
  ServeOptions options;
  options.model = "/";
  options.num_decode = 64;
  options.kv_memory = ByteCount(std::int64_t{1} << 50);
  const Status status = options.Validate();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(Error(status), HasSubstr("--shm-size"));
  options.kv_transport = "ucx-tcp";
  EXPECT_TRUE(options.Validate().ok());
}

TEST(ServeOptions, NodesTakeTurnsOnRequestWhenTheyHaveMoreThreadsThanThereAreCpus) {
  ServeOptions options;
  EXPECT_FALSE(options.TakeTurns(1));
  options.core_sharing = "turns";
  EXPECT_TRUE(options.TakeTurns(64));  // one thread a CPU, each node
  options.threads = 4;
  EXPECT_FALSE(options.TakeTurns(8));
  EXPECT_TRUE(options.TakeTurns(7));
  options.num_decode = 2;
  EXPECT_TRUE(options.TakeTurns(8));
}

TEST(ServeOptions, AliasWinsOverTheFilesName) {
  ServeOptions options;
  options.model = "/m/SmolLM2-135M-Instruct.Q4_1.gguf";
  EXPECT_EQ(options.ModelId(), "SmolLM2-135M-Instruct");
  options.alias = "small";
  EXPECT_EQ(options.ModelId(), "small");
}

TEST(Summary, TellsWhatTheServerReported) {
  client::ChatAnswer answer;
  answer.finish_reason = "stop";
  answer.usage = {{"prompt_tokens", 31}, {"completion_tokens", 40}};
  answer.timings = {{"ttft_ms", 55.25},
                    {"itl_mean_ms", 12.5},
                    {"transfer_bytes", 1500000},
                    {"transfer_ms", 4.125},
                    {"transfer_exposed_ms", 0.5}};
  const std::string text = Summary(answer);
  for (const char* part :
       {"31 tokens", "40 tokens (stop)", "55.2 ms", "12.50 ms mean, 80.0 tokens/s", "1.50 MB",
        "4.12 ms in all, 0.50 ms of it exposed"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Summary, LeavesOutWhatIsUnknown) {
  client::ChatAnswer answer;
  answer.usage = {{"prompt_tokens", 3}};
  EXPECT_THAT(Summary(answer), Not(HasSubstr("KV")));
}

}  // namespace
}  // namespace tandem::deploy
