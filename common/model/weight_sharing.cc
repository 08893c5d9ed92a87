#include "common/model/weight_sharing.h"

#include <chrono>
#include <utility>

#include "common/model/content_hash.h"

namespace tandem::model {

std::optional<Hash128> WeightSharing::Identity() const {
  const auto stamps = model_.source.Stamps();
  if (!stamps.ok()) return std::nullopt;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return IdentityOf(*stamps, ConfigHash(model_.config),
                    std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                    cache_.options().settled_after);
}

WeightFile::Progress WeightSharing::Reporter(std::int64_t before) const {
  return [this, before](ByteCount done) {
    if (lock_ != nullptr) lock_->Touch();
    model_.report(before, done);
  };
}

StatusOr<Hash128> WeightSharing::Content() {
  if (content_) return *content_;
  TANDEM_ASSIGN_OR_RETURN(content_,
                          ContentHash(model_.reader, model_.config, model_.pool, Reporter(0)));
  return *content_;
}

StatusOr<SharedWeights> WeightSharing::Find() {
  std::string path = cache_.PathOf(key().FileName());
  auto file = WeightFile::Open(path, key(), model_.pool, Reporter(model_.plan.stored_bytes()));
  if (!file.ok()) return file.status();
  return SharedWeights{*std::move(file), std::move(path), false};
}

StatusOr<SharedWeights> WeightSharing::Get() {
  // Taken before anything is read: what changes from here on gets a later stamp.
  const std::optional<Hash128> identity = Identity();
  if (identity) content_ = cache_.Remembered(*identity);
  if (content_) {
    auto found = Find();
    if (found.ok()) return found;
  }
  const auto lock = cache_.Acquire();
  if (!lock.ok()) {
    // A folder that cannot be written may hold the file all the same.
    TANDEM_RETURN_IF_ERROR(Content().status());
    auto found = Find();
    return found.ok() ? std::move(found) : lock.status();
  }
  lock_ = &*lock;
  if (identity && !content_) content_ = cache_.Remembered(*identity);  // its holder may have
  if (!content_) {
    TANDEM_RETURN_IF_ERROR(Content().status());
    if (identity && Identity() == identity) cache_.Remember(*lock, *identity, *content_);
  }
  auto shared = Find();
  // A file that there is no room to map would be no better when made anew.
  if (!shared.ok() && shared.status().code() != absl::StatusCode::kResourceExhausted) {
    if (shared.status().code() != absl::StatusCode::kNotFound) {
      damage_ = std::string(FromAbsl(shared.status().message()));
    }
    shared = Pack(*lock);
  }
  lock_ = nullptr;
  return shared;
}

StatusOr<SharedWeights> WeightSharing::Pack(const WeightCache::Lock& lock) {
  TANDEM_RETURN_IF_ERROR(cache_.MakeRoom(lock, ByteCount(key().FileBytes())));
  TANDEM_ASSIGN_OR_RETURN(WeightFile file,
                          WeightFile::Write(cache_.part_path(), key(), model_.plan, model_.pool,
                                            Reporter(model_.plan.stored_bytes())));
  TANDEM_RETURN_IF_ERROR(cache_.Publish(lock, key().FileName()));
  return SharedWeights{std::move(file), cache_.PathOf(key().FileName()), true};
}

}  // namespace tandem::model
