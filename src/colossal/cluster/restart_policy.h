// Decides whether an elastic job that has failed starts again, and on what.
#pragma once

#include <chrono>

namespace colossal::cluster {

// Default of the option --max-restarts.
inline constexpr int kDefaultRestarts = 3;

// Ranks that have run this long have made progress, also if they do not tell it (send_progress()).
inline constexpr std::chrono::minutes kProgressTime{10};

// A job that fails again before it has made progress is likely to fail for a lasting reason, such
// as a broken device. So the first restart after progress uses the same ranks, and the following
// restarts leave out the part that failed, until the job makes progress or max_restarts is reached.
class RestartPolicy {
 public:
  enum class Decision {
    same,     // start again on the same ranks
    smaller,  // start again on fewer ranks, without those that failed if possible
    give_up   // end the job with the failure's exit code
  };

  // max_restarts: number of restarts without progress; 0: the job never starts again.
  explicit RestartPolicy(int max_restarts) : max_restarts_(max_restarts) {}

  // Call it after each failure. progressed: whether the job has made progress since it was last
  // started.
  Decision after_failure(bool progressed);

  // Number of restarts since the job last made progress.
  int restarts() const { return restarts_; }
  int max_restarts() const { return max_restarts_; }
  // How long to wait before the restart that was decided last: 0 s, then 1 s, 2 s, 4 s, up to 30 s.
  std::chrono::seconds pause() const;

 private:
  int max_restarts_;
  int restarts_ = 0;
};

}  // namespace colossal::cluster
