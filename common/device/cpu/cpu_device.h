// The CPU as a device: work is done when the call returns.
#pragma once

#include <memory>
#include <string>

#include "common/device/device.h"

namespace tandem::device {

// Memory comes zeroed from anonymous mappings, with huge pages asked for. Thread-safe.
class CpuDevice final : public Device {
 public:
  std::string name() const override { return "cpu"; }
  MemoryType memory_type() const override { return MemoryType::kHost; }
  StatusOr<Buffer> Allocate(ByteCount size) override;
  StatusOr<std::unique_ptr<Stream>> CreateStream() override;
  StatusOr<std::unique_ptr<Event>> CreateEvent() override;
};

}  // namespace tandem::device
