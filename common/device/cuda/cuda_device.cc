#include "common/device/cuda/cuda_device.h"

#include <cuda_runtime.h>

#include <utility>

namespace tandem::device {
namespace {

Status Check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return OkStatus();
  if (error == cudaErrorMemoryAllocation) {
    return ResourceExhausted("{}: {}", what, cudaGetErrorString(error));
  }
  return Internal("{}: {}", what, cudaGetErrorString(error));
}

class Allocation final : public Buffer::Owner {
 public:
  Allocation(std::int32_t index, void* address) : index_(index), address_(address) {}
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation() override {
    if (cudaSetDevice(index_) == cudaSuccess) cudaFree(address_);
  }

 private:
  std::int32_t index_;
  void* address_;
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(cudaEvent_t event) : event_(event) {}
  ~CudaEvent() override { cudaEventDestroy(event_); }

  StatusOr<bool> Done() override {
    const cudaError_t error = cudaEventQuery(event_);
    if (error == cudaErrorNotReady) return false;
    TANDEM_RETURN_IF_ERROR(Check(error, "CUDA event"));
    return true;
  }
  Status Wait() override { return Check(cudaEventSynchronize(event_), "CUDA event"); }
  cudaEvent_t handle() const { return event_; }

 private:
  cudaEvent_t event_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(std::int32_t index, cudaStream_t stream) : index_(index), stream_(stream) {}
  ~CudaStream() override { cudaStreamDestroy(stream_); }

  Status Copy(const MemoryRegion& to, const MemoryRegion& from) override {
    if (to.length != from.length) {
      return InvalidArgument("copy of {} bytes into a region of {}", from.length, to.length);
    }
    TANDEM_RETURN_IF_ERROR(Select());
    return Check(
        cudaMemcpyAsync(to.address, from.address, static_cast<std::size_t>(from.length.value()),
                        cudaMemcpyDefault, stream_),
        "CUDA copy");
  }
  Status FillZero(const MemoryRegion& region) override {
    if (region.OnHost()) return InvalidArgument("a CUDA stream clears GPU memory only");
    TANDEM_RETURN_IF_ERROR(Select());
    return Check(cudaMemsetAsync(region.address, 0, static_cast<std::size_t>(region.length.value()),
                                 stream_),
                 "CUDA clear");
  }
  Status Record(Event& event) override {
    TANDEM_RETURN_IF_ERROR(Select());
    return Check(cudaEventRecord(static_cast<CudaEvent&>(event).handle(), stream_), "CUDA record");
  }
  Status After(Event& event) override {
    TANDEM_RETURN_IF_ERROR(Select());
    return Check(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).handle(), 0),
                 "CUDA wait");
  }
  Status Synchronize() override { return Check(cudaStreamSynchronize(stream_), "CUDA stream"); }

 private:
  Status Select() { return Check(cudaSetDevice(index_), "CUDA device"); }

  std::int32_t index_;
  cudaStream_t stream_;
};

}  // namespace

StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(std::int32_t index) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return NotFound("no CUDA GPU: {}", cudaGetErrorString(error));
  }
  if (index < 0 || index >= count) return NotFound("no CUDA GPU {}, there are {}", index, count);
  cudaDeviceProp properties;
  TANDEM_RETURN_IF_ERROR(Check(cudaGetDeviceProperties(&properties, index), "CUDA device"));
  return std::unique_ptr<CudaDevice>(
      new CudaDevice(index, fmt::format("cuda:{} {}", index, properties.name)));
}

StatusOr<Buffer> CudaDevice::Allocate(ByteCount size) {
  if (size.value() < 1) return InvalidArgument("cannot allocate {} bytes", size);
  TANDEM_RETURN_IF_ERROR(Check(cudaSetDevice(index_), "CUDA device"));
  const auto bytes = static_cast<std::size_t>(size.value());
  void* address = nullptr;
  TANDEM_RETURN_IF_ERROR(
      Check(cudaMalloc(&address, bytes), fmt::format("{} bytes of memory of {}", size, name_)));
  auto owner = std::make_unique<Allocation>(index_, address);
  TANDEM_RETURN_IF_ERROR(Check(cudaMemset(address, 0, bytes), "CUDA clear"));
  return Buffer({static_cast<std::byte*>(address), size, MemoryType::kCuda, index_},
                std::move(owner));
}

StatusOr<std::unique_ptr<Stream>> CudaDevice::CreateStream() {
  TANDEM_RETURN_IF_ERROR(Check(cudaSetDevice(index_), "CUDA device"));
  cudaStream_t stream;
  TANDEM_RETURN_IF_ERROR(
      Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "CUDA stream"));
  return std::unique_ptr<Stream>(std::make_unique<CudaStream>(index_, stream));
}

StatusOr<std::unique_ptr<Event>> CudaDevice::CreateEvent() {
  TANDEM_RETURN_IF_ERROR(Check(cudaSetDevice(index_), "CUDA device"));
  cudaEvent_t event;
  TANDEM_RETURN_IF_ERROR(
      Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "CUDA event"));
  return std::unique_ptr<Event>(std::make_unique<CudaEvent>(event));
}

}  // namespace tandem::device
