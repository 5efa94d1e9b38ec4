// Learning rate schedules: a linear warm-up from 0 to the peak rate, then one of several ways in
// which the rate falls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace colossal::optim {

// The "scheduler" table of a job's configuration.
struct ScheduleConfig {
  std::string name = "cosine";  // one of schedule_names(): the rate after warm-up
  int64_t warmup_steps = 0;
  double minimum_ratio = 0;  // the lowest rate after warm-up, as a fraction of the peak, 0 to 1
  std::optional<double> power = {};      // of "polynomial" (default 1) and "power" (default 0.5)
  double decay_factor = 0.1;             // of "step", "multistep" and "exponential"
  int64_t step_size = 1;                 // of "step": number of steps with one rate
  std::vector<int64_t> milestones = {};  // of "multistep": the last steps with each rate
  double flat_ratio = 0.72;  // of "flat_cosine": fraction of the steps that have the peak rate
  int64_t cycles = 1;        // of "cosine_restarts"
  // Of "wsd" and "power": the last steps, in which the rate falls to the minimum. nullopt: a tenth
  // of all steps for "wsd", none for "power".
  std::optional<int64_t> decay_steps = {};
  std::string decay_shape = "linear";  // of "wsd" and "power": "linear", "cosine" or "sqrt"
};

std::vector<std::string> schedule_names();

// A function from steps to learning rates.
class Schedule {
 public:
  // peak: the learning rate at the end of warm-up. total_steps: the number of steps of the run,
  // including the warm-up; "constant" and others that do not end ignore it. Throws ConfigError for
  // an unknown name and for settings out of range.
  Schedule(const ScheduleConfig& config, double peak, int64_t total_steps);

  // Returns the learning rate of step `step`. The first step is 1.
  //
  // During warm-up (step <= warmup_steps) the rate is peak * step / warmup_steps. After it, let
  // n = step - 1 - warmup_steps and progress = n / max(1, total_steps - warmup_steps), but at most
  // 1. Then
  //   rate = peak * max(minimum_ratio, shape), for schedules whose shape is marked with *,
  //   rate = peak * (minimum_ratio + (1 - minimum_ratio) * shape) for others, where shape is:
  //     constant         1
  //     linear           1 - progress
  //     cosine           (1 + cos(pi * progress)) / 2
  //     cosine_restarts  the cosine over the fractional part of cycles * progress
  //     polynomial       (1 - progress)^power
  //     flat_cosine      1 up to progress = flat_ratio, then the cosine over the rest
  //     exponential   *  decay_factor^n
  //     step          *  decay_factor^floor(n / step_size)
  //     multistep     *  decay_factor^(number of milestones < step)
  //     inverse_sqrt  *  sqrt(t / (n + t)) with t = warmup_steps, or 10,000 without warm-up
  //     power         *  (t / (n + t))^power with t = max(1, warmup_steps); see below
  //     wsd              1; see below (S. Hu et al. 2024, "MiniCPM")
  //     one_cycle        from 1/25 up to 1 and down to 1/250,000 along cosines, as
  //                      torch.optim.lr_scheduler.OneCycleLR does by default; warmup_steps
  //                      must be 0
  // In the last decay_steps of "wsd" and "power", the rate's distance to the minimum is multiplied
  // by 1 - d (linear), (1 + cos(pi * d)) / 2 (cosine) or 1 - sqrt(d) (sqrt), where d is the number
  // of these steps before this one, divided by decay_steps.
  //
  // With "linear" and "cosine", the first step after warm-up has the peak rate, and the minimum
  // would be reached in step total_steps + 1, as in Hugging Face transformers. The rate during
  // warm-up is not that of transformers, which is peak * (step - 1) / warmup_steps.
  double learning_rate(int64_t step) const;

 private:
  double shape(int64_t step) const;  // 1 at the peak
  double one_cycle(int64_t step) const;
  int64_t decay_steps() const;
  // Returns the factor of the distance to the minimum in the last steps; 1 before them.
  double final_decay(int64_t step) const;

  ScheduleConfig config_;
  double peak_;
  int64_t total_steps_;
};

}  // namespace colossal::optim
