// Choosing the next token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace runner {

class Sampler {
 public:
  // A temperature of 0 takes the most likely token, 1 draws from the model's distribution, more
  // flattens it. The same seed gives the same tokens.
  Sampler(double temperature, uint64_t seed) : temperature_(temperature), state_(seed) {}

  // Ends the process with a sentence, which begins with `program`, if a logit is not a number.
  uint32_t choose(const std::vector<float>& logits, const std::string& program);

 private:
  // From 0 to below 1.
  double random();

  double temperature_;
  uint64_t state_;
};

}  // namespace runner
