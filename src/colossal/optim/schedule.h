// Learning rate over steps: linear warm-up, then one of three shapes.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::optim {

struct ScheduleConfig {
  std::string name = "cosine";  // "cosine", "linear", "constant"
  int64_t warmup_steps = 0;
  // What cosine and linear fall towards, as a part of the peak; see Schedule.
  double minimum_ratio = 0;
};

class Schedule {
 public:
  // total_steps: cosine and linear would reach their minimum at the step after it.
  Schedule(const ScheduleConfig& config, double peak, int64_t total_steps);

  // Rate of the update that makes step `step` (from 1). During warm-up peak * step / warmup_steps.
  // From then on by (step - 1 - warmup_steps) / (total_steps - warmup_steps) of the way down, as
  // transformers computes it: the first such step has the whole peak, the last one not yet the
  // minimum. (In warm-up transformers is a step behind: peak * (step - 1) / warmup_steps.)
  double learning_rate(int64_t step) const;

 private:
  ScheduleConfig config_;
  double peak_;
  int64_t total_steps_;
};

}  // namespace colossal::optim
