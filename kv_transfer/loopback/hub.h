// Where sources and sinks of one process find each other without a network. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "kv_transfer/landing.h"

namespace tandem::transfer::loopback {

// What a source needs of a sink. `open` turns false, under `gate`, before the sink's memory goes.
struct Port {
  Port(std::uint64_t incarnation, std::vector<Landing::Region> regions, std::size_t max_tickets)
      : incarnation(incarnation), landing(std::move(regions), max_tickets) {}

  const std::uint64_t incarnation;
  Landing landing;
  SharedMutex gate;  // held shared by a writer
  bool open ABSL_GUARDED_BY(gate) = true;
};

class Hub {
 public:
  std::string Add(std::shared_ptr<Port> port);  // its address
  void Remove(const std::string& address);
  std::shared_ptr<Port> Find(const std::string& address) const;  // null: none

 private:
  mutable Mutex mutex_;
  // shared_ptr: a writer may hold a port for the moment of a copy after its sink has gone.
  std::map<std::string, std::shared_ptr<Port>> ports_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
};

std::shared_ptr<Hub> MakeHub();

}  // namespace tandem::transfer::loopback
