// Learning rate over steps: linear warm-up, then one of three shapes.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::optim {

struct ScheduleConfig {
  std::string name = "cosine";  // "cosine", "linear", "constant"
  int64_t warmup_steps = 0;
  double minimum_ratio = 0;  // of the peak learning rate, at the last step (cosine and linear)
};

class Schedule {
 public:
  // total_steps: at which cosine and linear reach their minimum.
  Schedule(const ScheduleConfig& config, double peak, int64_t total_steps);

  // Rate of the update that makes step `step` (from 1). During warm-up: peak * step / warmup_steps.
  double learning_rate(int64_t step) const;

 private:
  ScheduleConfig config_;
  double peak_;
  int64_t total_steps_;
};

}  // namespace colossal::optim
