// The rotary frequencies of a model, all scalings applied.
#pragma once

#include <vector>

#include "common/model/config.h"

namespace tandem::model {

struct RopeFrequencies {
  std::vector<double> radians_per_token;  // [head_dim / 2]
  double scale = 1.0;                     // of cos and sin
};

// Computed in double, once. YaRN as Peng et al. 2023 ("YaRN: efficient context window extension of
// large language models"), with the corrections to whole dimensions of its published code.
RopeFrequencies FrequenciesOf(const ModelConfig& config);

}  // namespace tandem::model
