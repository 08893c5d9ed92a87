// Finds a model's architecture by the name its file gives.
#pragma once

#include <span>
#include <string_view>

#include "common/base/status.h"
#include "common/model/config.h"

namespace tandem::model {

// `name` as config.json's model_type or GGUF's general.architecture say it, one of `known`; `where`
// is for messages. Errors: Unimplemented, listing the known ones.
StatusOr<Architecture> FindArchitecture(std::string_view name, std::span<const Architecture> known,
                                        std::string_view where);

}  // namespace tandem::model
