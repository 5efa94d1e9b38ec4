// Learning rate schedules: linear warm-up, then cosine or linear decay or a constant rate.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::optim {

struct ScheduleConfig {
  std::string name = "cosine";  // "cosine", "linear", "constant"
  int64_t warmup_steps = 0;
  // The minimum rate of cosine and linear, as a fraction of the peak; see Schedule.
  double minimum_ratio = 0;
};

class Schedule {
 public:
  // total_steps: cosine and linear would reach the minimum at step total_steps + 1. Throws
  // ConfigError for an unknown name or negative warmup_steps.
  Schedule(const ScheduleConfig& config, double peak, int64_t total_steps);

  // Returns the rate of step `step` (counted from 1). During warm-up: peak * step / warmup_steps.
  // After warm-up, progress is (step - 1 - warmup_steps) / (total_steps - warmup_steps), as in
  // transformers: the first step after warm-up has the full peak, the last step is just above the
  // minimum. (During warm-up transformers is one step behind: peak * (step - 1) / warmup_steps.)
  double learning_rate(int64_t step) const;

 private:
  ScheduleConfig config_;
  double peak_;
  int64_t total_steps_;
};

}  // namespace colossal::optim
