#include "common/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tandem::model {
namespace {

// The dimension whose wave makes `rotations` turns over the original context.
double DimensionOf(double rotations, const ModelConfig& config) {
  return config.head_dim *
         std::log(config.rope_scaling.original_context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(config.rope_theta));
}

void ApplyYarn(const ModelConfig& config, RopeFrequencies& out) {
  const RopeScaling& scaling = config.rope_scaling;
  const double low = std::max(std::floor(DimensionOf(scaling.beta_fast, config)), 0.0);
  double high = std::min(std::ceil(DimensionOf(scaling.beta_slow, config)), config.head_dim - 1.0);
  if (high == low) high += 0.001;
  for (std::size_t i = 0; i < out.radians_per_token.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    double& frequency = out.radians_per_token[i];
    frequency = frequency / scaling.factor * ramp + frequency * (1 - ramp);
  }
  const double default_scale = scaling.factor > 1 ? 0.1 * std::log(scaling.factor) + 1 : 1.0;
  out.scale = scaling.attention_factor.value_or(default_scale);
}

}  // namespace

RopeFrequencies FrequenciesOf(const ModelConfig& config) {
  RopeFrequencies out;
  for (std::int32_t i = 0; i < config.head_dim / 2; ++i) {
    double frequency = std::pow(config.rope_theta, -2.0 * i / config.head_dim);
    if (!config.rope_divisors.empty()) {
      frequency /= static_cast<double>(config.rope_divisors[static_cast<std::size_t>(i)]);
    }
    out.radians_per_token.push_back(frequency);
  }
  if (config.rope_scaling.type == RopeScalingType::kLinear) {
    for (double& frequency : out.radians_per_token) frequency /= config.rope_scaling.factor;
  } else if (config.rope_scaling.type == RopeScalingType::kYarn) {
    ApplyYarn(config, out);
  }
  return out;
}

}  // namespace tandem::model
