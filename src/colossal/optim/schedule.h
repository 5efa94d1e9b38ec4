// Learning rate schedules: a linear warm-up from 0 to the peak rate, then cosine decay, linear
// decay or a constant rate.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::optim {

// The "scheduler" table of a job's configuration.
struct ScheduleConfig {
  std::string name = "cosine";  // "cosine", "linear" or "constant": the rate after warm-up
  int64_t warmup_steps = 0;
  // The final rate of "cosine" and "linear", as a fraction of the peak rate, from 0 to 1.
  double minimum_ratio = 0;
};

// A function from steps to learning rates.
class Schedule {
 public:
  // peak: the learning rate at the end of warm-up. total_steps: the number of steps of the run,
  // including the warm-up; "constant" ignores total_steps. Throws ConfigError for an unknown name
  // or negative warmup_steps.
  Schedule(const ScheduleConfig& config, double peak, int64_t total_steps);

  // Returns the learning rate of step `step`. The first step is 1.
  //
  // During warm-up (step <= warmup_steps) the rate is peak * step / warmup_steps. After it, let
  // progress = (step - 1 - warmup_steps) / max(1, total_steps - warmup_steps), but at most 1. Then
  //   rate = peak * (minimum_ratio + (1 - minimum_ratio) * shape),
  // where shape is (1 + cos(pi * progress)) / 2 for "cosine" and 1 - progress for "linear".
  // "constant" returns peak. So the first step after warm-up has the peak rate, and the minimum
  // would be reached in step total_steps + 1, as in Hugging Face transformers. The rate during
  // warm-up is not that of transformers, which is peak * (step - 1) / warmup_steps.
  double learning_rate(int64_t step) const;

 private:
  ScheduleConfig config_;
  double peak_;
  int64_t total_steps_;
};

}  // namespace colossal::optim
