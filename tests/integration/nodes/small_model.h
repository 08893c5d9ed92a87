// One generated model for all tests of a program.
#pragma once

#include <cstdint>

#include "common/worker/loaded_model.h"

namespace tandem::testing {

inline constexpr std::int32_t kSmallContext = 512;

// Its file is gone already.
const worker::LoadedModel& SmallModel();

}  // namespace tandem::testing
