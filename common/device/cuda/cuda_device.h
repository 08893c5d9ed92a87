// One NVIDIA GPU as a device. Uses the CUDA runtime only, so a program that has it starts where
// there is no driver.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/device/device.h"

namespace tandem::device {

// Thread-safe: each call selects its GPU for the calling thread.
class CudaDevice final : public Device {
 public:
  // Errors: NotFound where there is no GPU of that index (or no driver), saying how many there are.
  static StatusOr<std::unique_ptr<CudaDevice>> Open(std::int32_t index);

  std::string name() const override { return name_; }
  MemoryType memory_type() const override { return MemoryType::kCuda; }
  StatusOr<Buffer> Allocate(ByteCount size) override;
  StatusOr<std::unique_ptr<Stream>> CreateStream() override;
  StatusOr<std::unique_ptr<Event>> CreateEvent() override;

 private:
  CudaDevice(std::int32_t index, std::string name) : index_(index), name_(std::move(name)) {}

  std::int32_t index_;
  std::string name_;
};

}  // namespace tandem::device
