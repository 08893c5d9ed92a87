#include "common/engine/model_runner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/thread_pool.h"
#include "common/engine/batch_image.h"
#include "common/engine/forward_pass.h"
#include "common/engine/sampler.h"

namespace tandem::engine {
namespace {

using Sampled = std::span<const sequence::SampledToken>;

Status CheckRange(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return OkStatus();
  return InvalidArgument("engine option {} is {}, must be {} to {}", field, value, low, high);
}

// What the options leave open.
StatusOr<ModelRunner::Options> Resolve(const model::Model& model, const KvArena& arena,
                                       ModelRunner::Options options) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  if (options.threads == 0) {
    TANDEM_ASSIGN_OR_RETURN(const CpuList allowed, AllowedCpus());
    const CpuList& cpus = options.cpus.empty() ? allowed : options.cpus;
    options.threads = static_cast<std::int32_t>(std::clamp<std::size_t>(cpus.size(), 1, 1024));
  }
  const std::int64_t held = std::int64_t{arena.num_blocks().value()} * arena.layout().block_size;
  const std::int64_t asked =
      options.max_context.value() > 0 ? options.max_context.value() : model.config().context_length;
  options.max_context = TokenCount(static_cast<std::int32_t>(std::min(asked, held)));
  return options;
}

}  // namespace

kv::KvLayout KvLayoutOf(const model::Model& model, std::int32_t block_size) {
  const model::ModelConfig& config = model.config();
  kv::KvLayout layout;
  layout.num_layers = config.num_layers;
  layout.num_kv_heads = config.num_kv_heads;
  layout.head_dim = config.head_dim;
  layout.block_size = block_size;
  layout.dtype =
      ops::KvTypeOf(model.numerics()) == ops::KvType::kF32 ? kv::KvDtype::kF32 : kv::KvDtype::kBf16;
  return layout;
}

Status ModelRunner::Options::Validate() const {
  TANDEM_RETURN_IF_ERROR(CheckRange("max_tokens_per_step", max_tokens_per_step.value(), 1, 65536));
  TANDEM_RETURN_IF_ERROR(CheckRange("max_slices", max_slices, 1, 4096));
  TANDEM_RETURN_IF_ERROR(CheckRange("max_context", max_context.value(), 0, 1 << 26));
  return CheckRange("threads", threads, 0, 1024);
}

class ModelRunner::Impl {
 public:
  Impl(const model::Model& model, const KvArena& arena, const Options& options)
      : model_(model),
        options_(options),
        pool_(options.threads),
        image_({.max_tokens = options.max_tokens_per_step,
                .max_slices = options.max_slices,
                .max_context = options.max_context,
                .vocab_size = model.config().vocab_size,
                .block_size = arena.layout().block_size,
                .num_blocks = arena.num_blocks()}),
        sample_status_(static_cast<std::size_t>(options.max_slices)) {
    sampled_.reserve(static_cast<std::size_t>(options.max_slices));
  }

  Status BindThreads() {
    if (options_.cpus.empty()) return OkStatus();
    std::vector<Status> bound(static_cast<std::size_t>(options_.threads));
    pool_.Run([&](int thread_idx, int num_threads) {
      const auto i = static_cast<std::size_t>(thread_idx);
      const bool one_each = static_cast<std::size_t>(num_threads) <= options_.cpus.size();
      bound[i] = BindThisThread(one_each ? CpuList{options_.cpus[i]} : options_.cpus);
    });
    for (const Status& status : bound) TANDEM_RETURN_IF_ERROR(status);
    return OkStatus();
  }

  Status Reserve(KvArena& arena) {
    TANDEM_ASSIGN_OR_RETURN(forward_,
                            ForwardPass::Create(model_, arena, pool_,
                                                {.max_rows = options_.max_tokens_per_step.value(),
                                                 .max_sampled = options_.max_slices,
                                                 .max_context = options_.max_context.value()}));
    for (std::int32_t i = 0; i < options_.threads; ++i) {
      samplers_.emplace_back(forward_->ops(), model_.config().vocab_size);
    }
    return OkStatus();
  }

  StatusOr<Sampled> Step(const sequence::Batch& batch, StepObserver* observer) {
    sampled_.clear();
    TANDEM_RETURN_IF_ERROR(image_.Set(batch));
    if (image_.num_rows() == 0) return Sampled(sampled_);
    forward_->Run(image_, observer, times_);
    ReportLogits(batch);
    TANDEM_RETURN_IF_ERROR(SampleAll(batch));
    return Sampled(sampled_);
  }

  void set_sink(LogitsSink* sink) { sink_ = sink; }
  void set_times(StageTimes* times) { times_ = times; }
  const Options& options() const { return options_; }
  const model::Model& model() const { return model_; }

 private:
  const sequence::Slice& SampledSlice(const sequence::Batch& batch, std::size_t index) const {
    return batch.slices[static_cast<std::size_t>(image_.sample_slices()[index])];
  }

  void ReportLogits(const sequence::Batch& batch) {
    if (sink_ == nullptr) return;
    for (std::size_t i = 0; i < image_.sample_rows().size(); ++i) {
      sink_->Logits(SampledSlice(batch, i).tag, forward_->logits(static_cast<std::int64_t>(i)));
    }
  }

  // Each thread takes every so many rows; a row is one thread's alone.
  Status SampleAll(const sequence::Batch& batch) {
    const std::size_t count = image_.sample_rows().size();
    if (count == 0) return OkStatus();
    sampled_.resize(count);
    pool_.Run([&](int thread_idx, int num_threads) {
      if (times_ != nullptr) times_->Enter(thread_idx, Stage::kSample);
      Sampler& sampler = samplers_[static_cast<std::size_t>(thread_idx)];
      for (auto i = static_cast<std::size_t>(thread_idx); i < count;
           i += static_cast<std::size_t>(num_threads)) {
        const sequence::Slice& slice = SampledSlice(batch, i);
        auto choice = sampler.Sample(forward_->logits(static_cast<std::int64_t>(i)), *slice.sample,
                                     slice.position);
        sample_status_[i] = choice.status();
        if (choice.ok()) sampled_[i] = {slice.tag, choice->token, choice->logprob};
      }
      if (times_ != nullptr) times_->Enter(thread_idx, Stage::kOutside);
    });
    for (std::size_t i = 0; i < count; ++i) {
      if (sample_status_[i].ok()) continue;
      return Annotate(sample_status_[i],
                      fmt::format("slice {} of the batch", image_.sample_slices()[i]));
    }
    return OkStatus();
  }

  const model::Model& model_;
  Options options_;
  ThreadPool pool_;
  BatchImage image_;
  std::unique_ptr<ForwardPass> forward_;
  std::vector<Sampler> samplers_;  // one a thread
  std::vector<Status> sample_status_;
  std::vector<sequence::SampledToken> sampled_;
  LogitsSink* sink_ = nullptr;
  StageTimes* times_ = nullptr;
};

StatusOr<std::unique_ptr<ModelRunner>> ModelRunner::Create(const model::Model& model,
                                                           KvArena& arena, const Options& options) {
  TANDEM_ASSIGN_OR_RETURN(const Options resolved, Resolve(model, arena, options));
  const kv::KvLayout expected = KvLayoutOf(model, arena.layout().block_size);
  if (arena.layout() != expected) {
    return FailedPrecondition("the KV arena is laid out as {}, the model in class {} wants {}",
                              arena.layout().ToString(), model.numerics_class(),
                              expected.ToString());
  }
  auto impl = std::make_unique<Impl>(model, arena, resolved);
  TANDEM_RETURN_IF_ERROR(impl->BindThreads());
  TANDEM_RETURN_IF_ERROR(impl->Reserve(arena));
  return std::unique_ptr<ModelRunner>(new ModelRunner(std::move(impl)));
}

ModelRunner::ModelRunner(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelRunner::~ModelRunner() = default;

StatusOr<Sampled> ModelRunner::Step(const sequence::Batch& batch, StepObserver& observer) {
  return impl_->Step(batch, &observer);
}

StatusOr<Sampled> ModelRunner::Step(const sequence::Batch& batch) {
  return impl_->Step(batch, nullptr);
}

void ModelRunner::SetLogitsSink(LogitsSink* sink) { impl_->set_sink(sink); }
void ModelRunner::SetStageTimes(StageTimes* times) {
  TANDEM_CHECK(times == nullptr || times->num_threads() >= impl_->options().threads);
  impl_->set_times(times);
}
const ModelRunner::Options& ModelRunner::options() const { return impl_->options(); }
const model::Model& ModelRunner::model() const { return impl_->model(); }

}  // namespace tandem::engine
