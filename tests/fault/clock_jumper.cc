// Preloaded into a process, makes the wall clock jump by two hours back and forth every second, as
// an operator or a broken time service would. Clocks that only run forward are left alone.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr time_t kJumpSeconds = 3600;

time_t Jump() {
  timespec up{};
  ::syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &up);
  return up.tv_sec % 2 == 0 ? kJumpSeconds : -kJumpSeconds;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t id, timespec* out) noexcept {
  const auto status = static_cast<int>(::syscall(SYS_clock_gettime, id, out));
  const bool wall = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
  if (status == 0 && wall) out->tv_sec += Jump();
  return status;
}

int gettimeofday(timeval* out, void*) noexcept {
  timespec now{};
  const int status = clock_gettime(CLOCK_REALTIME, &now);
  if (status == 0) *out = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return status;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
