#include "kv_transfer/loopback/hub.h"

#include <fmt/format.h>

#include <utility>

namespace tandem::transfer::loopback {

std::string Hub::Add(std::shared_ptr<Port> port) {
  MutexLock lock(mutex_);
  std::string address = fmt::format("loopback:{}", next_++);
  ports_.emplace(address, std::move(port));
  return address;
}

void Hub::Remove(const std::string& address) {
  MutexLock lock(mutex_);
  ports_.erase(address);
}

std::shared_ptr<Port> Hub::Find(const std::string& address) const {
  MutexLock lock(mutex_);
  const auto found = ports_.find(address);
  return found == ports_.end() ? nullptr : found->second;
}

std::shared_ptr<Hub> MakeHub() { return std::make_shared<Hub>(); }

}  // namespace tandem::transfer::loopback
