// What computes and where its memory is: the CPU, or one GPU.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/device/buffer.h"
#include "common/device/memory.h"

namespace tandem::device {

// A point in a stream's work. Not thread-safe, except that Done and Wait may be called from any one
// thread while another one feeds the stream.
class Event {
 public:
  virtual ~Event() = default;
  // Whether all work before the last Record has finished; true when nothing was recorded.
  // Errors: Internal when that work failed.
  virtual StatusOr<bool> Done() = 0;
  // Blocks until Done. Errors: as Done.
  virtual Status Wait() = 0;
};

// A queue of work that runs in order, asynchronously where the device can. Regions must stay valid
// until the work has finished. Events must come from the same device. Not thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;
  // Errors: InvalidArgument when lengths differ or this device cannot reach one of the two.
  virtual Status Copy(const MemoryRegion& to, const MemoryRegion& from) = 0;
  virtual Status FillZero(const MemoryRegion& region) = 0;
  virtual Status Record(Event& event) = 0;
  // Later work of this stream waits for `event`; the host does not.
  virtual Status After(Event& event) = 0;
  // Blocks until everything so far has finished. Errors: Internal when some of it failed.
  virtual Status Synchronize() = 0;
};

// Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // "cpu", "cuda:0 NVIDIA L4"
  virtual MemoryType memory_type() const = 0;
  // Zeroed, aligned to 64 bytes or more. Errors: ResourceExhausted; InvalidArgument for less than
  // one byte.
  virtual StatusOr<Buffer> Allocate(ByteCount size) = 0;
  virtual StatusOr<std::unique_ptr<Stream>> CreateStream() = 0;
  virtual StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;
};

}  // namespace tandem::device
