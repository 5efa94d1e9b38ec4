// Learning rate schedules: a linear warm-up, then cosine decay, linear decay or a constant rate.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::optim {

struct ScheduleConfig {
  std::string name = "cosine";  // "cosine", "linear", "constant"
  int64_t warmup_steps = 0;
  // The rate at which "cosine" and "linear" end, as a fraction of the peak rate.
  double minimum_ratio = 0;
};

class Schedule {
 public:
  // peak: the learning rate at the end of warm-up. total_steps: the run's steps, with those of
  // warm-up; "constant" ignores it. Throws ConfigError for an unknown name or negative
  // warmup_steps.
  Schedule(const ScheduleConfig& config, double peak, int64_t total_steps);

  // Returns the learning rate of step `step`, counted from 1. During warm-up it is peak * step /
  // warmup_steps. Then "cosine" and "linear" decay from peak to minimum_ratio * peak, and are at
  // the fraction (step - 1 - warmup_steps) / (total_steps - warmup_steps) of the way, as in
  // transformers: the first step after warm-up has the peak rate, and step total_steps + 1 would be
  // the first with the minimum. (transformers differs during warm-up: peak * (step - 1) /
  // warmup_steps.)
  double learning_rate(int64_t step) const;

 private:
  ScheduleConfig config_;
  double peak_;
  int64_t total_steps_;
};

}  // namespace colossal::optim
