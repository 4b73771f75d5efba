#include "tools/runner/llm/sampler.h"

#include <algorithm>
#include <cmath>

#include "tools/runner/base/fail.h"

namespace runner {

uint32_t Sampler::choose(const std::vector<float>& logits, const std::string& program) {
  if (std::any_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); })) {
    fail(program + ": its logits are not numbers (NaN); try the program with another recipe, e.g. one "
         "in 32-bit floating point.");
  }
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (temperature_ == 0) {
    return static_cast<uint32_t>(largest - logits.begin());
  }
  // Less the maximum, so that no exponential overflows.
  std::vector<double> bounds;
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp((double{logit} - double{*largest}) / temperature_);
    bounds.push_back(sum);
  }
  const auto drawn = std::upper_bound(bounds.begin(), bounds.end(), random() * sum);
  return static_cast<uint32_t>(std::min<size_t>(
      static_cast<size_t>(drawn - bounds.begin()), logits.size() - 1));
}

// SplitMix64.
double Sampler::random() {
  state_ += 0x9E3779B97F4A7C15;
  uint64_t bits = state_;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EB;
  return static_cast<double>((bits ^ bits >> 31) >> 11) / 9007199254740992.0;
}

}  // namespace runner
