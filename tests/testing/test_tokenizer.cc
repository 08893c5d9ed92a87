#include "tests/testing/test_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <map>

#include "common/base/check.h"
#include "common/formats/byte_cursor.h"

namespace tandem::testing {
namespace {

namespace json = boost::json;

constexpr std::string_view kWords[] = {
    " the",  " of",    " and",    " to",   " in",   " is",    " that", " it",   " was",   " for",
    " you",  " with",  " have",   " this", " from", " they",  " say",  " she",  " will",  " one",
    " all",  " would", " there",  " what", " out",  " about", " who",  " get",  " which", " when",
    "Hello", " world", " little", " once", "ing",   "ed",     " day",  " girl", " play",  " happy"};

// GPT-2's alphabet: printable Latin-1 stands for itself, the other bytes for U+0100 upwards.
std::string ByteSymbol(int byte) {
  auto shown = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  int code = byte;
  if (!shown(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += shown(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
}

void AddToken(TestTokenizer& out, std::string text, TokenType type) {
  out.tokens.push_back(std::move(text));
  out.types.push_back(type);
}

// Merges `word` as known pairs allow, best first, then adds merges until one token is left.
void LearnWord(std::string_view word, std::map<std::string, std::size_t>& ranks,
               TestTokenizer& out) {
  std::vector<std::string> parts;
  for (char c : word) parts.push_back(ByteSymbol(static_cast<unsigned char>(c)));
  while (parts.size() > 1) {
    std::size_t best = 0;
    std::size_t best_rank = SIZE_MAX;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      auto it = ranks.find(parts[i] + " " + parts[i + 1]);
      if (it != ranks.end() && it->second < best_rank) {
        best = i;
        best_rank = it->second;
      }
    }
    std::string merged = parts[best] + parts[best + 1];
    if (best_rank == SIZE_MAX) {
      std::string pair = parts[best] + " " + parts[best + 1];
      ranks.emplace(pair, ranks.size());
      out.merges.push_back(pair);
      if (std::find(out.tokens.begin(), out.tokens.end(), merged) == out.tokens.end()) {
        AddToken(out, merged, TokenType::kNormal);
      }
    }
    parts[best] = std::move(merged);
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

json::object AddedToken(std::size_t id, std::string_view text) {
  return {{"id", id},
          {"content", json::string_view(text.data(), text.size())},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false},
          {"normalized", false},
          {"special", true}};
}

// Every split of a piece into two known pieces is a merge; merges of better pieces come first.
std::vector<std::string> MergesOfScores(const TestTokenizer& tokenizer) {
  std::map<std::string_view, std::size_t> ids;
  for (std::size_t i = 0; i < tokenizer.tokens.size(); ++i) {
    if (tokenizer.types[i] == TokenType::kNormal) ids.emplace(tokenizer.tokens[i], i);
  }
  std::vector<std::size_t> order;
  for (const auto& [text, id] : ids) order.push_back(id);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(-tokenizer.scores[a], a) < std::pair(-tokenizer.scores[b], b);
  });
  std::vector<std::string> merges;
  for (std::size_t id : order) {
    std::string_view piece = tokenizer.tokens[id];
    for (std::size_t cut = 1; cut < piece.size(); ++cut) {
      std::string_view left = piece.substr(0, cut);
      std::string_view right = piece.substr(cut);
      if (ids.contains(left) && ids.contains(right)) {
        merges.push_back(fmt::format("{} {}", left, right));
      }
    }
  }
  return merges;
}

// What lies between added_tokens and model in tokenizer.json.
constexpr const char* kByteLevelParts = R"("normalizer":null,
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},
  {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]},
"post_processor":null,
"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})";

constexpr const char* kSpmParts = R"("normalizer":{"type":"Sequence","normalizers":[
  {"type":"Prepend","prepend":"\u2581"},
  {"type":"Replace","pattern":{"String":" "},"content":"\u2581"}]},
"pre_tokenizer":null,
"post_processor":{"type":"TemplateProcessing",
  "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
  "pair":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
          {"SpecialToken":{"id":"<s>","type_id":1}},{"Sequence":{"id":"B","type_id":1}}],
  "special_tokens":{"<s>":{"id":"<s>","ids":[1],"tokens":["<s>"]}}},
"decoder":{"type":"Sequence","decoders":[
  {"type":"Replace","pattern":{"String":"\u2581"},"content":" "},
  {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})";

}  // namespace

void TestTokenizer::PadTo(std::size_t size) {
  while (tokens.size() < size) {
    if (kind == Kind::kSpm) scores.push_back(-1e9f);
    AddToken(*this, fmt::format("[PAD{}]", tokens.size()), TokenType::kUnused);
  }
}

void TestTokenizer::AddTo(GgufWriter& writer) const {
  const bool bpe = kind == Kind::kBpe;
  writer.SetString("tokenizer.ggml.model", bpe ? "gpt2" : "llama");
  writer.SetString("tokenizer.ggml.pre", bpe ? pre : "default");
  writer.SetStrings("tokenizer.ggml.tokens", tokens);
  std::vector<std::int32_t> numbers;
  for (TokenType type : types) numbers.push_back(static_cast<std::int32_t>(type));
  writer.SetInts("tokenizer.ggml.token_type", numbers);
  if (bpe) writer.SetStrings("tokenizer.ggml.merges", merges);
  if (!bpe) writer.SetFloats("tokenizer.ggml.scores", scores);
  writer.SetU32("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(bos));
  writer.SetU32("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(eos));
  writer.SetU32("tokenizer.ggml.unknown_token_id", static_cast<std::uint32_t>(unknown));
  writer.SetBool("tokenizer.ggml.add_bos_token", add_bos);
  writer.SetBool("tokenizer.ggml.add_space_prefix", add_space_prefix);
  if (!chat_template.empty()) writer.SetString("tokenizer.chat_template", chat_template);
}

std::string TestTokenizer::TokenizerJson() const {
  const bool bpe = kind == Kind::kBpe;
  json::array added;
  json::object vocab;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] == TokenType::kUnused) continue;
    if (types[id] == TokenType::kControl || types[id] == TokenType::kUnknown) {
      added.push_back(AddedToken(id, tokens[id]));
    }
    vocab[tokens[id]] = id;
  }
  json::array pairs;
  for (const std::string& merge : bpe ? merges : MergesOfScores(*this)) {
    pairs.push_back(json::string(merge));
  }
  json::object model = {{"type", "BPE"},
                        {"dropout", nullptr},
                        {"unk_token", bpe ? json::value(nullptr) : json::value("<unk>")},
                        {"continuing_subword_prefix", nullptr},
                        {"end_of_word_suffix", nullptr},
                        {"fuse_unk", !bpe},
                        {"byte_fallback", !bpe}};
  model["vocab"] = vocab;
  model["merges"] = pairs;
  return fmt::format(
      "{{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":{},\n{},\n"
      "\"model\":{}}}\n",
      json::serialize(added), bpe ? kByteLevelParts : kSpmParts, json::serialize(model));
}

std::string TestTokenizer::ConfigJson() const {
  auto text = [&](std::int32_t id) { return json::string(tokens[static_cast<std::size_t>(id)]); };
  json::object out = {{"bos_token", text(bos)},
                      {"eos_token", text(eos)},
                      {"unk_token", text(unknown)},
                      {"add_bos_token", add_bos},
                      {"clean_up_tokenization_spaces", false}};
  out["tokenizer_class"] = kind == Kind::kBpe ? "GPT2Tokenizer" : "LlamaTokenizer";
  if (!chat_template.empty()) out["chat_template"] = chat_template;
  return json::serialize(out);
}

TestTokenizer MakeBpeTokenizer() {
  TestTokenizer out;
  AddToken(out, "<|endoftext|>", TokenType::kControl);
  AddToken(out, "<|im_start|>", TokenType::kControl);
  AddToken(out, "<|im_end|>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) AddToken(out, ByteSymbol(byte), TokenType::kNormal);
  std::map<std::string, std::size_t> ranks;
  for (std::string_view word : kWords) LearnWord(word, ranks, out);
  out.bos = 1;
  out.eos = 2;
  out.unknown = 0;
  return out;
}

std::string_view ChatMlTemplate() {
  return "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
         "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}"
         "{{ '<|im_start|>assistant\\n' }}{% endif %}";
}

TestTokenizer ReadLlama2cTokenizer(std::string_view tok_bin, int vocab_size) {
  TestTokenizer out;
  out.kind = TestTokenizer::Kind::kSpm;
  formats::ByteCursor cursor(std::as_bytes(std::span(tok_bin.data(), tok_bin.size())));
  TANDEM_CHECK(cursor.Read<std::int32_t>().has_value());
  for (int id = 0; id < vocab_size; ++id) {
    auto score = cursor.Read<float>();
    auto length = cursor.Read<std::int32_t>();
    TANDEM_CHECK(score && length && *length >= 0);
    auto raw = cursor.Take(static_cast<std::uint64_t>(*length));
    TANDEM_CHECK(raw.has_value());
    std::string text;
    for (std::byte b : *raw) {  // llama2.c writes SentencePiece's "▁" as a space
      text += b == std::byte{' '} ? std::string("\u2581") : std::string(1, static_cast<char>(b));
    }
    TokenType type = TokenType::kNormal;
    if (id == 0) type = TokenType::kUnknown;
    if (id == 1 || id == 2) {  // "\n<s>\n" there
      type = TokenType::kControl;
      text = id == 1 ? "<s>" : "</s>";
    }
    if (text.size() == 6 && text.starts_with("<0x")) type = TokenType::kByte;
    out.scores.push_back(*score);
    AddToken(out, std::move(text), type);
  }
  out.bos = 1;
  out.eos = 2;
  out.add_bos = true;
  out.add_space_prefix = true;
  return out;
}

}  // namespace tandem::testing
