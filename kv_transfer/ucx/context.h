// One ucp_context_h, configured for exactly one kind of link: there is nothing to fall back to.
#pragma once

#include <ucp/api/ucp.h>

#include <string>
#include <utility>

#include "common/base/status.h"
#include "kv_transfer/create.h"

namespace tandem::transfer::ucx {

class Context {
 public:
  struct Options {
    Transport transport = Transport::kUcxTcp;  // kUcxShm or kUcxTcp
    std::string net_device;                    // kUcxTcp; empty: all
    std::string shm_directory;                 // kUcxShm
    UcxSettings settings;
  };
  // Errors: Unavailable with UCX's reason.
  static StatusOr<Context> Create(const Options& options);

  Context(Context&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}
  Context& operator=(Context&& other) noexcept {
    std::swap(context_, other.context_);
    return *this;
  }
  ~Context();

  ucp_context_h get() const { return context_; }

 private:
  explicit Context(ucp_context_h context) : context_(context) {}
  ucp_context_h context_ = nullptr;
};

}  // namespace tandem::transfer::ucx
