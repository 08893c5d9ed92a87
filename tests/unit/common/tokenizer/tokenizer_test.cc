// The tokenizer on small vocabularies that the tests make.
#include "common/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>

#include "common/base/random.h"
#include "common/base/utf8.h"
#include "common/formats/gguf.h"
#include "common/tokenizer/detokenizer.h"
#include "common/tokenizer/tokenizer_loader.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/paths.h"
#include "tests/testing/test_tokenizer.h"

namespace tandem::tokenizer {
namespace {

using ::testing::HasSubstr;

StatusOr<Tokenizer> FromGguf(const testing::TestTokenizer& made) {
  testing::GgufWriter writer;
  made.AddTo(writer);
  const std::string bytes = writer.Finish();
  TANDEM_ASSIGN_OR_RETURN(const auto file,
                          formats::GgufFile::FromBytes("test", std::as_bytes(std::span(bytes))));
  return LoadTokenizerFromGguf(file);
}

StatusOr<Tokenizer> FromJson(const std::string& json) {
  TANDEM_ASSIGN_OR_RETURN(TokenizerData data, ReadJsonTokenizer({.tokenizer_json = json}));
  return Tokenizer::Create(std::move(data));
}

testing::TestTokenizer MakeSpm() {
  testing::TestTokenizer out;
  out.kind = testing::TestTokenizer::Kind::kSpm;
  out.add_bos = true;
  out.add_space_prefix = true;
  auto add = [&](std::string text, testing::TokenType type, float score) {
    out.tokens.push_back(std::move(text));
    out.types.push_back(type);
    out.scores.push_back(score);
  };
  add("<unk>", testing::TokenType::kUnknown, 0);
  add("<s>", testing::TokenType::kControl, 0);
  add("</s>", testing::TokenType::kControl, 0);
  for (int b = 0; b < 256; ++b) add(fmt::format("<0x{:02X}>", b), testing::TokenType::kByte, 0);
  float score = -1;
  for (const char* text :
       {"▁", "a", "b", "c", "<", "s", ">", "/", "ab", "▁ab", "abc", "▁abc", "<s"}) {
    add(text, testing::TokenType::kNormal, score--);
  }
  add("<s>x", testing::TokenType::kNormal, 5);  // only via the special token: never made
  out.bos = 1;
  out.eos = 2;
  return out;
}

// Valid UTF-8 with characters of every length, white space and digits.
std::string RandomText(SplitMix64& random, std::size_t characters) {
  constexpr std::string_view kAscii = "  the of and Hello world ing 0123\n\n\t.,!?'s <|im_end|>";
  std::string out;
  for (std::size_t i = 0; i < characters; ++i) {
    const std::uint64_t kind = random.Below(10);
    if (kind < 7) {
      out.push_back(kAscii[random.Below(kAscii.size())]);
    } else {
      const char32_t limit = kind == 7 ? 0x800 : kind == 8 ? 0xD800 : 0x10FFFF;
      char32_t code = static_cast<char32_t>(random.Below(limit));
      if (code >= 0xD800 && code < 0xE000) code = 0x1F680;
      AppendUtf8(code, out);
    }
  }
  return out;
}

TokenIds Ids(const StatusOr<TokenIds>& ids) {
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(TokenIds());
}

TEST(TokenizerTest, ByteLevelTextComesBackAndBothFormatsAgree) {
  const testing::TestTokenizer made = testing::MakeBpeTokenizer();
  const auto gguf = FromGguf(made);
  const auto json = FromJson(made.TokenizerJson());
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  ASSERT_TRUE(json.ok()) << json.status();
  SplitMix64 random(1);
  for (int i = 0; i < 300; ++i) {
    const std::string text = RandomText(random, random.Below(80));
    const TokenIds ids = Ids(gguf->Encode(MarkedText::FromUser(text), {}));
    EXPECT_EQ(ids, Ids(json->Encode(MarkedText::FromUser(text), {})));
    EXPECT_EQ(gguf->Decode(ids), text);
  }
}

TEST(TokenizerTest, WordsMergeIntoOneToken) {
  const auto tokenizer = FromGguf(testing::MakeBpeTokenizer());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const TokenIds ids = Ids(tokenizer->Encode(MarkedText::FromUser("Hello world"), {}));
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_EQ(tokenizer->TokenBytes(ids[0]), "Hello");
  EXPECT_EQ(tokenizer->TokenBytes(ids[1]), " world");
  // Digits stand alone, as smollm's pre-tokenizer has it.
  EXPECT_EQ(Ids(tokenizer->Encode(MarkedText::FromUser("123"), {})).size(), 3u);
}

TEST(TokenizerTest, SpecialTokensAreMatchedInTrustedBytesOnly) {
  const auto tokenizer = FromGguf(testing::MakeBpeTokenizer());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::string text = "<|im_start|>";
  EXPECT_EQ(Ids(tokenizer->Encode(MarkedText::Trusted(text), {})), TokenIds{TokenId(1)});
  const TokenIds plain = Ids(tokenizer->Encode(MarkedText::FromUser(text), {}));
  EXPECT_GT(plain.size(), 3u);
  EXPECT_EQ(tokenizer->Decode(plain), text);
  EXPECT_EQ(Ids(tokenizer->Encode(MarkedText::Trusted(text), {.parse_special = false})), plain);
  for (std::size_t cut = 1; cut < text.size(); ++cut) {  // one user byte anywhere is enough
    MarkedText mixed = MarkedText::Trusted(text.substr(0, cut - 1)) +
                       MarkedText::FromUser(text.substr(cut - 1, 1)) +
                       MarkedText::Trusted(text.substr(cut));
    EXPECT_EQ(Ids(tokenizer->Encode(mixed, {})), plain) << cut;
  }
  // A trusted one behind user text is matched; ordinary text is one stretch, whoever wrote it.
  MarkedText after = MarkedText::FromUser("<|im_") + MarkedText::Trusted("<|im_end|>");
  EXPECT_EQ(Ids(tokenizer->Encode(after, {})).back(), TokenId(2));
  MarkedText joined = MarkedText::Trusted("Hel") + MarkedText::FromUser("lo");
  EXPECT_EQ(Ids(tokenizer->Encode(joined, {})).size(), 1u);
}

TEST(TokenizerTest, InvalidUtf8IsRefusedWithItsOffset) {
  const auto tokenizer = FromGguf(testing::MakeBpeTokenizer());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  for (const char* bad : {"abc\xFF", "abc\xC3", "abc\xED\xA0\x80", "abc\xC0\x80", "abc\xF5"}) {
    const auto ids = tokenizer->Encode(MarkedText::FromUser(bad), {});
    EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(ids.status().message()), HasSubstr("byte 3"));
  }
}

TEST(TokenizerTest, AHugeRunOfAnythingIsEncoded) {
  const auto tokenizer = FromGguf(testing::MakeBpeTokenizer());
  const auto spm = FromGguf(MakeSpm());
  auto qwen = testing::MakeBpeTokenizer();
  qwen.pre = "qwen2";
  const auto nfc = FromGguf(qwen);
  ASSERT_TRUE(tokenizer.ok() && spm.ok() && nfc.ok());
  constexpr std::size_t kSize = 1 << 18;
  std::string marks = "a";  // combining classes 220 and 230, in the wrong order throughout
  while (marks.size() < kSize) marks += "\u0301\u0323";
  std::string openers;
  while (openers.size() < kSize) openers += "<|im_star";
  for (const std::string& text :
       {std::string(kSize, 'a'), std::string(kSize, ' '), std::string(kSize, '\n'),
        std::string(kSize, '1'), std::string(kSize, '!'), std::string(kSize, '<'), openers, marks,
        std::string(kSize, ' ') + "x"}) {
    for (const Tokenizer* t : {&*tokenizer, &*spm, &*nfc}) {
      const auto ids = t->Encode(MarkedText::Trusted(text), {});
      ASSERT_TRUE(ids.ok()) << ids.status();
      EXPECT_GT(ids->size(), 0u);
      if (t != &*nfc) {
        EXPECT_EQ(t->Decode(*ids), text);
      }
    }
  }
}

TEST(TokenizerTest, SpmMergesByScoreAndFallsBackToBytes) {
  const auto tokenizer = FromGguf(MakeSpm());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  auto pieces = [&](std::string_view text) {
    std::string out;
    for (TokenId id : Ids(tokenizer->Encode(MarkedText::FromUser(std::string(text)), {}))) {
      out += "[" + std::string(tokenizer->TokenBytes(id)) + "]";
    }
    return out;
  };
  EXPECT_EQ(pieces("abc"), "[ abc]");
  EXPECT_EQ(pieces("cab"), "[ ][c][ab]");
  EXPECT_EQ(pieces(""), "");
  EXPECT_EQ(pieces("<s>x"), "[ ][<s][>][x]");  // never the special token, nor what only it leads to
  const TokenIds bytes = Ids(tokenizer->Encode(MarkedText::FromUser("é"), {}));
  EXPECT_EQ(bytes.size(), 3u);
  EXPECT_EQ(tokenizer->Decode(bytes), "é");
  EXPECT_EQ(Ids(tokenizer->Encode(MarkedText::FromUser("a"), {.add_special_tokens = true})).front(),
            TokenId(1));
  EXPECT_EQ(tokenizer->Decode(Ids(tokenizer->Encode(MarkedText::FromUser(" ab c"), {}))), " ab c");
}

TEST(DetokenizerTest, StreamsWhatDecodeGives) {
  SplitMix64 random(7);
  for (const auto& made : {testing::MakeBpeTokenizer(), MakeSpm()}) {
    const auto tokenizer = FromGguf(made);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (int i = 0; i < 500; ++i) {
      TokenIds ids;  // any ids: most are broken UTF-8
      for (std::uint64_t n = random.Below(30); n > 0; --n) {
        ids.push_back(TokenId(static_cast<std::int32_t>(
            random.Below(static_cast<std::uint64_t>(tokenizer->vocab_size().value()) + 2))));
      }
      Detokenizer stream(*tokenizer, {});
      std::string streamed;
      for (TokenId id : ids) {
        const std::string delta = stream.Append(id);
        EXPECT_FALSE(FindInvalidUtf8(delta));
        streamed += delta;
        Detokenizer copy = stream;  // a copy changes nothing
        copy.Flush();
      }
      streamed += stream.Flush();
      EXPECT_EQ(streamed, tokenizer->Decode(ids));
    }
  }
}

TEST(DetokenizerTest, HoldsAnIncompleteCharacterAndGoesOnFromAPrompt) {
  const auto spm = FromGguf(MakeSpm());
  ASSERT_TRUE(spm.ok()) << spm.status();
  auto byte = [](int b) { return TokenId(3 + b); };
  Detokenizer stream(*spm, {});
  EXPECT_EQ(stream.Append(byte(0xF0)), "");
  EXPECT_EQ(stream.Append(byte(0x9F)), "");
  EXPECT_EQ(stream.Append(byte(0x9A)), "");
  EXPECT_EQ(stream.Append(byte(0x80)), "🚀");
  EXPECT_EQ(stream.Append(byte(0xC3)), "");
  EXPECT_EQ(stream.Flush(), "\uFFFD");
  const TokenIds ids = Ids(spm->Encode(MarkedText::FromUser("ab"), {}));
  EXPECT_EQ(Detokenizer(*spm, {.start_of_text = true}).Append(ids[0]), "ab");
  EXPECT_EQ(Detokenizer(*spm, {.start_of_text = false}).Append(ids[0]), " ab");
  EXPECT_EQ(Detokenizer(*spm, {.skip_special = true}).Append(TokenId(2)), "");
  EXPECT_EQ(Detokenizer(*spm, {.skip_special = false}).Append(TokenId(2)), "</s>");
}

// A tokenizer.json with the bytes a, b, x, y, space and what the tests put in.
std::string SmallJson(std::string_view added, std::string_view normalizer = "null",
                      std::string_view model_extra = "") {
  return fmt::format(
      R"({{"added_tokens":[{}],"normalizer":{},
"pre_tokenizer":{{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}},
"decoder":{{"type":"ByteLevel"}},"post_processor":null,
"model":{{"type":"BPE"{},"vocab":{{"a":0,"b":1,"x":2,"y":3,"Ġ":4,"ab":5}},"merges":["a b"]}}}})",
      added, normalizer, model_extra);
}

std::string Added(int id, std::string_view content, std::string_view flags) {
  return fmt::format(R"({{"id":{},"content":"{}","special":false,"normalized":false{}{}}})", id,
                     content, flags.empty() ? "" : ",", flags);
}

TEST(AddedTokensTest, LongestWinsAndFlagsAreHonoured) {
  const auto tokenizer =
      FromJson(SmallJson(Added(6, "x", R"("single_word":true)") + "," + Added(7, "yy", "") + "," +
                         Added(8, "yya", R"("lstrip":true,"rstrip":true)")));
  ASSERT_TRUE(tokenizer.status().message().find("'x'") != absl::string_view::npos)
      << "an added token may not take another id than the vocabulary gives it";
  const auto fixed =
      FromJson(SmallJson(Added(2, "x", R"("single_word":true)") + "," + Added(7, "yy", "") + "," +
                         Added(8, "yya", R"("lstrip":true,"rstrip":true)")));
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  auto encode = [&](const char* text) {
    std::vector<int> out;
    for (TokenId id : Ids(fixed->Encode(MarkedText::FromUser(text), {}))) out.push_back(id.value());
    return out;
  };
  EXPECT_EQ(encode("byyb"), (std::vector<int>{1, 7, 1}));
  EXPECT_EQ(encode("b  yya  b"), (std::vector<int>{1, 8, 1}));
  EXPECT_EQ(encode("yyyya"), (std::vector<int>{7, 8}));
  EXPECT_EQ(encode("ab x"), (std::vector<int>{5, 4, 2}));
}

TEST(JsonTokenizerTest, WhatItDoesNotKnowIsNamed) {
  const std::pair<std::string, const char*> cases[] = {
      {SmallJson("", R"({"type":"Lowercase"})"), "'Lowercase'"},
      {SmallJson("", R"({"type":"Replace","pattern":{"Regex":" +"},"content":" "})"), "'Replace'"},
      {SmallJson("", "null", R"(,"dropout":0.1)"), "dropout"},
      {SmallJson("", "null", R"(,"end_of_word_suffix":"</w>")"), "end_of_word_suffix"},
      {R"({"model":{"type":"Unigram"},"pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"}})",
       "'Unigram'"},
      {R"({"pre_tokenizer":{"type":"BertPreTokenizer"}})", "'BertPreTokenizer'"},
      {R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a"},"behavior":"MergedWithNext"}})",
       "MergedWithNext"},
      {R"({"decoder":{"type":"WordPiece"}})", "'WordPiece'"},
      {"[]", "object"},
      {"{", "tokenizer.json"},
  };
  for (const auto& [json, named] : cases) {
    const auto tokenizer = FromJson(json);
    EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument) << json;
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(named));
  }
}

TEST(JsonTokenizerTest, ReadsTheFilesBesideIt) {
  testing::TempDir folder;
  EXPECT_EQ(LoadTokenizerFromFolder(folder.path()).status().code(), absl::StatusCode::kNotFound);
  const testing::TestTokenizer made = testing::MakeBpeTokenizer();
  testing::WriteFile(folder.File("tokenizer.json"), made.TokenizerJson());
  testing::WriteFile(folder.File("tokenizer_config.json"),
                     R"({"eos_token":{"content":"<|im_end|>"},"bos_token":"<|im_start|>",
                         "chat_template":[{"name":"tool_use","template":"t"},{"name":"default","template":"d"}]})");
  testing::WriteFile(folder.File("generation_config.json"), R"({"eos_token_id":[2,0]})");
  const auto tokenizer = LoadTokenizerFromFolder(folder.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(tokenizer->bos(), TokenId(1));
  EXPECT_EQ(tokenizer->end_of_generation(), (TokenIds{TokenId(0), TokenId(2)}));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(TokenId(0)));
  EXPECT_FALSE(tokenizer->IsEndOfGeneration(TokenId(1)));
  EXPECT_EQ(tokenizer->chat_template(), "d");
}

TEST(GgufTokenizerTest, WhatItDoesNotKnowIsNamed) {
  testing::TestTokenizer made = testing::MakeBpeTokenizer();
  made.pre = "default";
  EXPECT_THAT(std::string(FromGguf(made).status().message()), HasSubstr("'default'"));
  made = testing::MakeBpeTokenizer();
  made.merges[3] = "nosuch token";
  EXPECT_THAT(std::string(FromGguf(made).status().message()), HasSubstr("nosuch"));
  made = testing::MakeBpeTokenizer();
  made.eos = 1 << 20;
  EXPECT_THAT(std::string(FromGguf(made).status().message()), HasSubstr("eos_token_id"));
}

TEST(ContentHashTest, ChangesWithAnyPart) {
  const testing::TestTokenizer made = testing::MakeBpeTokenizer();
  const auto first = FromGguf(made);
  const auto second = FromGguf(made);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->content_hash(), second->content_hash());
  testing::TestTokenizer changed = made;
  std::swap(changed.merges[0], changed.merges[1]);
  const auto merges = FromGguf(changed);
  changed = made;
  changed.chat_template = "x";
  const auto chat = FromGguf(changed);
  ASSERT_TRUE(merges.ok() && chat.ok());
  EXPECT_NE(first->content_hash(), merges->content_hash());
  EXPECT_NE(first->content_hash(), chat->content_hash());
}

}  // namespace
}  // namespace tandem::tokenizer
