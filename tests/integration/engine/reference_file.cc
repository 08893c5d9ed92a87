#include "tests/integration/engine/reference_file.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "common/base/check.h"
#include "common/device/cpu/cpu_device.h"
#include "common/engine/kv_arena.h"
#include "common/engine/model_runner.h"
#include "common/formats/json_file.h"
#include "tests/testing/paths.h"

namespace tandem::testing {
namespace {

class KeepLogits final : public engine::LogitsSink {
 public:
  void Logits(sequence::SliceTag, std::span<const float> logits) override {
    all.emplace_back(logits.begin(), logits.end());
  }
  std::vector<std::vector<float>> all;
};

}  // namespace

boost::json::value ReadReference(const std::string& path) {
  auto value = formats::ReadJsonFile(path);
  if (!value.ok()) fmt::print(stderr, "{}\n", FromAbsl(value.status().message()));
  TANDEM_CHECK(value.ok());
  return *std::move(value);
}

std::string ReferencePath(std::string_view name) {
  return SourcePath(fmt::format("tests/integration/engine/reference/{}", name));
}

TokenIds IdsOf(const boost::json::value& list) {
  TokenIds ids;
  for (const boost::json::value& id : list.as_array()) {
    ids.push_back(TokenId(id.to_number<std::int32_t>()));
  }
  return ids;
}

std::vector<ReferencePrompt> PromptsOf(const boost::json::value& file) {
  std::vector<ReferencePrompt> prompts;
  for (const boost::json::value& entry : file.at("prompts").as_array()) {
    ReferencePrompt prompt;
    prompt.text = std::string(entry.at("text").as_string().c_str());
    prompt.ids = IdsOf(entry.at("ids"));
    for (const boost::json::value& pair : entry.at("top20").as_array()) {
      prompt.top20.emplace_back(TokenId(pair.at(0).to_number<std::int32_t>()),
                                pair.at(1).to_number<float>());
    }
    prompt.greedy = IdsOf(entry.at("greedy32"));
    for (const boost::json::value& margin : entry.at("margin").as_array()) {
      prompt.margin.push_back(margin.to_number<float>());
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

std::vector<std::vector<float>> LogitsAfter(const model::Model& model, const TokenIds& tokens,
                                            std::size_t count, int threads) {
  TANDEM_CHECK(count >= 1 && count <= tokens.size());
  const kv::KvLayout layout = engine::KvLayoutOf(model);
  const auto length = TokenCount(static_cast<std::int32_t>(tokens.size()));
  const kv::BlockCount blocks = layout.BlocksFor(length);
  device::CpuDevice device;
  auto arena = engine::KvArena::Allocate(layout, blocks, device);
  TANDEM_CHECK(arena.ok());
  auto runner = engine::ModelRunner::Create(
      model, *arena,
      {.max_tokens_per_step = length, .max_slices = 1, .max_context = length, .threads = threads});
  TANDEM_CHECK(runner.ok());
  std::vector<kv::BlockId> table;
  for (std::int32_t i = 0; i < blocks.value(); ++i) table.push_back(kv::BlockId(i));
  KeepLogits keep;
  (*runner)->SetLogitsSink(&keep);
  const sequence::SamplingParams greedy{.temperature = 0, .stop_token_ids = {}};
  std::size_t computed = 0;
  while (computed < tokens.size()) {
    const std::size_t next = computed == 0 ? tokens.size() - count + 1 : 1;
    sequence::Batch batch;
    batch.slices.push_back({.tag = sequence::SliceTag(0),
                            .first = TokenIndex(static_cast<std::int32_t>(computed)),
                            .tokens = std::span(tokens).subspan(computed, next),
                            .block_table = table,
                            .sample = &greedy});
    TANDEM_CHECK((*runner)->Step(batch).ok());
    computed += next;
  }
  return std::move(keep.all);
}

}  // namespace tandem::testing
