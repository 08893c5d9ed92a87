#include "kv_transfer/ucx/context.h"

#include <ucm/api/ucm.h>
#include <ucs/debug/log_def.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "common/log/log.h"
#include "kv_transfer/ucx/ucx_status.h"

namespace tandem::transfer::ucx {
namespace {

// UCX's own warnings and errors, as one line each of ours. What it calls an error is mostly a peer
// that died, which the link reports and its owner logs.
ucs_log_func_rc_t LogUcx(const char* /*file*/, unsigned /*line*/, const char* /*function*/,
                         ucs_log_level_t level, const ucs_log_component_config_t* /*component*/,
                         const char* message, va_list arguments) {
  if (level > UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_STOP;
  std::array<char, 512> text;
  std::vsnprintf(text.data(), text.size(), message, arguments);
  if (level == UCS_LOG_LEVEL_FATAL) {
    log::Error("kv.ucx.fatal", "message={:?}", text.data());
    return UCS_LOG_FUNC_RC_CONTINUE;
  }
  log::Warning("kv.ucx.warning", "message={:?}", text.data());
  return UCS_LOG_FUNC_RC_STOP;
}

// Process-wide settings that UCX has no per-context form of: once, before the first context.
void PrepareProcess() {
  static std::once_flag once;
  std::call_once(once, [] {
    // No transport here caches registrations, so nothing need patch malloc and munmap.
    ucm_global_opts.enable_events = 0;
    ucs_log_push_handler(LogUcx);
  });
}

class Config {
 public:
  Config() : status_(FromUcs(ucp_config_read(nullptr, nullptr, &config_), "UCX configuration")) {}
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;
  ~Config() {
    if (config_ != nullptr) ucp_config_release(config_);
  }
  void Set(const char* name, const std::string& value) {
    if (!status_.ok()) return;
    status_ = FromUcs(ucp_config_modify(config_, name, value.c_str()),
                      fmt::format("UCX setting {}={}", name, value));
  }
  const Status& status() const { return status_; }
  ucp_config_t* get() const { return config_; }

 private:
  ucp_config_t* config_ = nullptr;
  Status status_;
};

}  // namespace

StatusOr<Context> Context::Create(const Options& options) {
  PrepareProcess();
  Config config;
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.name = "tandem";
  if (options.transport == Transport::kUcxShm) {
    params.features = UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
    config.Set("TLS", "posix");
    // Without it, mode PEER hides shared memory.
    config.Set("MM_ERROR_HANDLING", "y");
    // Memory of any other kind would be slow or unreachable, so let its allocation fail.
    config.Set("ALLOC_PRIO", "md:posix");
    config.Set("MM_HUGETLB_MODE", "n");
    if (!options.shm_directory.empty()) config.Set("DIR", options.shm_directory);
  } else {
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    config.Set("TLS", "tcp");
    config.Set("NET_DEVICES", options.net_device.empty() ? "all" : options.net_device);
    config.Set("RNDV_THRESH", "inf");  // gathered eager messages are faster
    // A whole message in one buffer is handed over in place, without being put together first.
    config.Set("RX_SEG_SIZE", "512k");
  }
  for (const auto& [name, value] : options.settings) config.Set(name.c_str(), value);
  TANDEM_RETURN_IF_ERROR(config.status());
  ucp_context_h context = nullptr;
  TANDEM_RETURN_IF_ERROR(
      FromUcs(ucp_init(&params, config.get(), &context),
              fmt::format("cannot start UCX for {}", ToString(options.transport))));
  return Context(context);
}

Context::~Context() {
  if (context_ != nullptr) ucp_cleanup(context_);
}

}  // namespace tandem::transfer::ucx
