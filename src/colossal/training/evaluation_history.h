// EvaluationHistory: the best values of a run's metric (checkpoint.best_metric), by which
// checkpoints are kept (checkpoint.keep_best) and a run is ended early (train.early_stopping). It
// is saved with each checkpoint, so that a resumed run decides as an uninterrupted one does.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "colossal/job/run_config.h"

namespace colossal {

class EvaluationHistory {
 public:
  explicit EvaluationHistory(const RunConfig& config);

  // Adds the value of the metric after a step. A value that is not finite is worse than any other.
  // Returns whether the step is among the best keep_best so far, so that its checkpoint is kept.
  bool add(int64_t step, double value);

  // The steps with the best values, at most keep_best.
  std::set<int64_t> best_steps() const;
  // Whether the last early_stopping values were not better than the best before by more than the
  // threshold; false if early_stopping is 0.
  bool ends_run() const;
  // Returns text such as "step 40, validation_loss 1.234"; "" if there is no value yet.
  std::string describe_best() const;

  // to_json() returns the state for a checkpoint, which restore() takes. restore() ignores the
  // state of another metric.
  nlohmann::json to_json() const;
  void restore(const nlohmann::json& state);

 private:
  struct Entry {
    int64_t step;
    double value;
  };
  bool is_better(double a, double b) const;

  std::string metric_;
  bool highest_;
  int64_t keep_best_;
  int64_t early_stopping_;
  double threshold_;
  std::vector<Entry> best_;  // the best first, one at least
  int64_t without_improvement_ = 0;
  double to_beat_;  // the value from which early stopping counts
};

}  // namespace colossal
