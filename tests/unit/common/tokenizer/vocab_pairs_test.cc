// Whole real vocabularies against ids that other implementations gave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "common/formats/gguf.h"
#include "common/tokenizer/detokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_loader.h"
#include "tests/testing/paths.h"

namespace tandem::tokenizer {
namespace {

using testing::SharedPath;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// The texts of an .inp file.
std::vector<std::string> SplitTexts(const std::string& all) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  std::size_t pos = 0;
  while (true) {
    const std::size_t end = all.find(separator, pos);
    if (end == std::string::npos) break;
    texts.push_back(all.substr(pos, end - pos));
    pos = end + separator.size();
  }
  return texts;
}

// The ids of an .out file, one text a line.
std::vector<std::vector<int>> SplitIds(const std::string& all) {
  std::vector<std::vector<int>> out;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    out.emplace_back(std::istream_iterator<int>(numbers), std::istream_iterator<int>());
  }
  return out;
}

std::vector<int> Plain(const TokenIds& ids) {
  std::vector<int> out;
  for (TokenId id : ids) out.push_back(id.value());
  return out;
}

StatusOr<Tokenizer> OpenGguf(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const auto file, formats::GgufFile::Open(path));
  return LoadTokenizerFromGguf(file);
}

// Both ways: the ids of every text, and the text of its ids.
void CheckPair(const Tokenizer& tokenizer, const std::string& pair) {
  const std::vector<std::string> texts = SplitTexts(ReadAll(*SharedPath(pair + ".inp")));
  const std::vector<std::vector<int>> ids = SplitIds(ReadAll(*SharedPath(pair + ".out")));
  ASSERT_EQ(texts.size(), ids.size());
  ASSERT_GT(texts.size(), 40u);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto encoded = tokenizer.Encode(MarkedText::FromUser(texts[i]), {});
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_EQ(Plain(*encoded), ids[i]) << "text " << i << ": '" << texts[i] << "'";
    EXPECT_EQ(tokenizer.Decode(*encoded), texts[i]);
    Detokenizer stream(tokenizer, {});
    std::string streamed;
    for (TokenId id : *encoded) streamed += stream.Append(id);
    EXPECT_EQ(streamed + stream.Flush(), texts[i]);
  }
}

class VocabPairTest : public ::testing::TestWithParam<const char*> {};

TEST_P(VocabPairTest, GivesTheIdsOfTheWholePair) {
  const std::string path = std::string("models/vocab/ggml-vocab-") + GetParam() + ".gguf";
  if (!SharedPath(path)) GTEST_SKIP() << path << " is not beside the repository";
  const auto tokenizer = OpenGguf(*SharedPath(path));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  CheckPair(*tokenizer, path);
}

INSTANTIATE_TEST_SUITE_P(All, VocabPairTest,
                         ::testing::Values("gpt-2", "starcoder", "llama-spm", "deepseek-coder"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

StatusOr<Tokenizer> OpenJson(const std::string& file) {
  TokenizerFiles files;
  files.tokenizer_json = ReadAll(*SharedPath("models/tok/" + file));
  TANDEM_ASSIGN_OR_RETURN(TokenizerData data, ReadJsonTokenizer(files));
  return Tokenizer::Create(std::move(data));
}

TEST(Qwen3Test, GivesTheListedIds) {
  if (!SharedPath("models/tok/qwen3.tokenizer.json")) GTEST_SKIP() << "no models/tok";
  const auto tokenizer = OpenJson("qwen3.tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::pair<std::string, std::vector<int>> cases[] = {
      {"->", {405}},
      {"(x):\n", {2075, 982}},
      {"1234567", {16, 17, 18, 19, 20, 21, 22}},
      {"Cafe\u0301", {34, 2577, 963}},
      {"  hello\n\n\n world", {220, 23811, 1406, 1879}},
  };
  for (const auto& [text, ids] : cases) {
    const auto encoded = tokenizer->Encode(MarkedText::FromUser(text), {});
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_EQ(Plain(*encoded), ids) << text;
  }
}

TEST(Qwen3Test, GivesTheIdsOfQwen2sPair) {
  if (!SharedPath("models/tok/qwen3.tokenizer.json")) GTEST_SKIP() << "no models/tok";
  const auto tokenizer = OpenJson("qwen3.tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  CheckPair(*tokenizer, "models/vocab/ggml-vocab-qwen2.gguf");
}

TEST(Qwen3Test, MatchesSpecialTokensInTrustedTextOnly) {
  if (!SharedPath("models/tok/qwen3.tokenizer.json")) GTEST_SKIP() << "no models/tok";
  const auto tokenizer = OpenJson("qwen3.tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto trusted = tokenizer->Encode(MarkedText::Trusted("<|im_start|>user"), {});
  const auto user = tokenizer->Encode(MarkedText::FromUser("<|im_start|>user"), {});
  ASSERT_TRUE(trusted.ok() && user.ok());
  EXPECT_EQ(Plain(*trusted), (std::vector<int>{151644, 872}));
  EXPECT_EQ(std::count(user->begin(), user->end(), TokenId(151644)), 0);
}

// Llama-2's vocabulary as tokenizer.json (merges by rank) must do what it does as GGUF (merges by
// score).
TEST(Llama2Test, JsonAndGgufAgree) {
  const std::string pair = "models/vocab/ggml-vocab-llama-spm.gguf";
  if (!SharedPath("models/tok/llama-2.tokenizer.json") || !SharedPath(pair)) {
    GTEST_SKIP() << "no models/tok";
  }
  const auto tokenizer = OpenJson("llama-2.tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  CheckPair(*tokenizer, pair);
  const auto with_bos =
      tokenizer->Encode(MarkedText::FromUser("Hello"), {.add_special_tokens = true});
  ASSERT_TRUE(with_bos.ok());
  EXPECT_EQ(Plain(*with_bos), (std::vector<int>{1, 15043}));
}

TEST(SmolLm2Test, GivesTheReferencesIds) {
  if (!testing::SmolLm2Path()) GTEST_SKIP() << "the SmolLM2 file is not in the model cache";
  if (!SharedPath("models/smollm2_oracle.json")) GTEST_SKIP() << "no smollm2_oracle.json";
  const auto tokenizer = OpenGguf(*testing::SmolLm2Path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto oracle = boost::json::parse(ReadAll(*SharedPath("models/smollm2_oracle.json")));
  for (const auto& prompt : oracle.at("prompts").as_array()) {
    const std::string text = boost::json::value_to<std::string>(prompt.at("text"));
    const auto encoded = tokenizer->Encode(MarkedText::Trusted(text), {.parse_special = true});
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_EQ(Plain(*encoded), boost::json::value_to<std::vector<int>>(prompt.at("ids"))) << text;
    EXPECT_EQ(tokenizer->Decode(*encoded, false), text);
  }
}

TEST(SmolLm2Test, ReadsIdsAndTemplate) {
  if (!testing::SmolLm2Path()) GTEST_SKIP() << "the SmolLM2 file is not in the model cache";
  const auto tokenizer = OpenGguf(*testing::SmolLm2Path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(tokenizer->vocab_size(), TokenCount(49152));
  EXPECT_EQ(tokenizer->bos(), TokenId(1));
  EXPECT_EQ(tokenizer->end_of_generation(), TokenIds{TokenId(2)});
  ASSERT_TRUE(tokenizer->chat_template().has_value());
  EXPECT_NE(tokenizer->chat_template()->find("<|im_start|>"), std::string::npos);
}

TEST(GptNeoxTest, WithoutAPreTokenizerIsRefused) {
  const std::string path = "models/vocab/ggml-vocab-gpt-neox.gguf";
  if (!SharedPath(path)) GTEST_SKIP() << path << " is not beside the repository";
  const auto tokenizer = OpenGguf(*SharedPath(path));
  EXPECT_THAT(std::string(tokenizer.status().message()),
              ::testing::HasSubstr("tokenizer.ggml.pre"));
}

}  // namespace
}  // namespace tandem::tokenizer
