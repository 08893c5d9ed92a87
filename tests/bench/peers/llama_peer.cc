// llama.cpp by its public interface, for tests/bench/versus:
//   llama_peer bench prefill|decode MODEL THREADS FLASH(0|1|auto) UBATCH STEPS
//                                                  a JSON object of tokens/s by case
//   llama_peer quantize MODEL OUT THREADS                         to Q4_0, from quantised weights
//   too llama_peer logits MODEL IDS OUT f16|bf16                      the last is the type of KV
// IDS has a token id a line; OUT gets f32 rows, one after each id but the last. The bench is what
// llama-bench and llama-batched-bench time: whole batches through llama_decode, nothing sampled.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "llama.h"

namespace {

constexpr int kPrompt = 128;  // in front of generation
constexpr int kBatch = 2048;  // tokens given to one llama_decode
constexpr int kMostSequences = 32;

struct FreeModel {
  void operator()(llama_model* model) const { llama_model_free(model); }
};
struct FreeContext {
  void operator()(llama_context* context) const { llama_free(context); }
};
using Model = std::unique_ptr<llama_model, FreeModel>;
using Context = std::unique_ptr<llama_context, FreeContext>;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "llama_peer: %s\n", what);
  std::exit(1);
}

void Quiet(ggml_log_level level, const char* text, void*) {
  if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

Model Load(const char* path) {
  Model model(llama_model_load_from_file(path, llama_model_default_params()));
  if (!model) Fail("the model does not load");
  return model;
}

Context MakeContext(const Model& model, const llama_context_params& params) {
  Context context(llama_init_from_model(model.get(), params));
  if (!context) Fail("no context");
  return context;
}

class Batch {
 public:
  Batch() : batch_(llama_batch_init(kBatch, 0, 1)) {}
  ~Batch() { llama_batch_free(batch_); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void Add(llama_token token, int position, int sequence, bool logits) {
    const int i = batch_.n_tokens++;
    batch_.token[i] = token;
    batch_.pos[i] = position;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = sequence;
    batch_.logits[i] = logits ? 1 : 0;
  }
  void Decode(const Context& context) {
    if (llama_decode(context.get(), batch_) != 0) Fail("llama_decode failed");
    llama_synchronize(context.get());
    batch_.n_tokens = 0;
  }

 private:
  llama_batch batch_;
};

class Bench {
 public:
  Bench(const char* path, int threads, llama_flash_attn_type flash, int ubatch)
      : model_(Load(path)), vocabulary_(llama_vocab_n_tokens(llama_model_get_vocab(model_.get()))) {
    params_ = llama_context_default_params();
    params_.n_batch = kBatch;
    params_.n_ubatch = static_cast<std::uint32_t>(ubatch);
    params_.n_threads = params_.n_threads_batch = threads;
    params_.flash_attn_type = flash;
    params_.no_perf = true;
  }

  // Tokens/s of a prompt, after one that warms up.
  double Prefill(int tokens) {
    params_.n_ctx = kBatch + 256;
    params_.n_seq_max = 1;
    const Context context = MakeContext(model_, params_);
    Prompt(context, 0, kPrompt);
    llama_memory_clear(llama_get_memory(context.get()), false);
    const auto start = Clock::now();
    Prompt(context, 0, tokens);
    return tokens / SecondsSince(start);
  }

  // Tokens/s of all sequences together.
  double Decode(int sequences, int steps) {
    params_.n_ctx = static_cast<std::uint32_t>(sequences * (kPrompt + steps));
    params_.n_seq_max = static_cast<std::uint32_t>(sequences);
    const Context context = MakeContext(model_, params_);
    for (int i = 0; i < sequences; ++i) Prompt(context, i, kPrompt);
    Batch batch;
    const auto start = Clock::now();
    for (int step = 0; step < steps; ++step) {
      for (int i = 0; i < sequences; ++i) batch.Add(Token(), kPrompt + step, i, true);
      batch.Decode(context);
    }
    return sequences * steps / SecondsSince(start);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double SecondsSince(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  llama_token Token() { return std::rand() % vocabulary_; }
  void Prompt(const Context& context, int sequence, int tokens) {
    Batch batch;
    for (int i = 0; i < tokens; ++i) batch.Add(Token(), i, sequence, i + 1 == tokens);
    batch.Decode(context);
  }

  Model model_;
  int vocabulary_;
  llama_context_params params_;
};

int RunBench(char** argv) {
  const std::string flash = argv[5];
  Bench bench(argv[3], std::atoi(argv[4]),
              flash == "auto" ? LLAMA_FLASH_ATTN_TYPE_AUTO
              : flash == "1"  ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                              : LLAMA_FLASH_ATTN_TYPE_DISABLED,
              std::atoi(argv[6]));
  const char* separator = "{";
  if (std::strcmp(argv[2], "prefill") == 0) {
    for (const int tokens : {512, 2048}) {
      std::printf("%s\"prefill %d\": %.2f", separator, tokens, bench.Prefill(tokens));
      separator = ", ";
    }
  } else {
    for (const int sequences : {1, 8, kMostSequences}) {
      std::printf("%s\"decode %d\": %.2f", separator, sequences,
                  bench.Decode(sequences, std::atoi(argv[7])));
      separator = ", ";
    }
  }
  std::printf("}\n");
  return 0;
}

int RunQuantize(char** argv) {
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.ftype = LLAMA_FTYPE_MOSTLY_Q4_0;
  params.nthread = std::atoi(argv[4]);
  params.allow_requantize = true;
  return llama_model_quantize(argv[2], argv[3], &params) == 0 ? 0 : 1;
}

int RunLogits(char** argv) {
  std::vector<llama_token> ids;
  std::ifstream in(argv[3]);
  for (llama_token id; in >> id;) ids.push_back(id);
  ids.pop_back();
  const int count = static_cast<int>(ids.size());
  const Model model = Load(argv[2]);
  llama_context_params params = llama_context_default_params();  // as its own programs start
  params.n_ctx = params.n_batch = params.n_ubatch = 512;
  params.n_threads = params.n_threads_batch = 2;
  if (std::strcmp(argv[5], "bf16") == 0) params.type_k = params.type_v = GGML_TYPE_BF16;
  const Context context = MakeContext(model, params);
  Batch batch;
  for (int i = 0; i < count; ++i) batch.Add(ids[static_cast<std::size_t>(i)], i, 0, true);
  batch.Decode(context);
  std::ofstream out(argv[4], std::ios::binary);
  const int width = llama_vocab_n_tokens(llama_model_get_vocab(model.get()));
  for (int i = 0; i < count; ++i) {
    out.write(reinterpret_cast<const char*>(llama_get_logits_ith(context.get(), i)),
              static_cast<std::streamsize>(sizeof(float)) * width);
  }
  return out.good() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  llama_backend_init();
  llama_log_set(&Quiet, nullptr);
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "bench" && argc == 8) return RunBench(argv);
  if (what == "quantize" && argc == 5) return RunQuantize(argv);
  if (what == "logits" && argc == 6) return RunLogits(argv);
  std::fprintf(stderr, "usage: see the top of llama_peer.cc\n");
  return 2;
}
