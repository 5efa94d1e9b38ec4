// The metrics of the route /metrics, in the Prometheus text format 0.0.4. A metric that vLLM has,
// too, has vLLM's name, with the prefix "colossal:".
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "colossal/serve/engine.h"

namespace colossal::server {

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void add(double value);
  // Appends the histogram to `text`. label: e.g. `model_name="a"`.
  void write(std::string& text, const std::string& name, const std::string& help,
             const std::string& label) const;

 private:
  std::vector<double> bounds_;   // upper bounds, ascending
  std::vector<int64_t> counts_;  // of values up to each bound, and above the last
  double sum_ = 0;
};

// Thread-safe.
class Metrics {
 public:
  explicit Metrics(std::string model_name);

  void answered(int status);  // counts a response, of any route
  // Counts a generated token. seconds: since the token before or, for the first token, since the
  // request arrived.
  void token(double seconds, bool first);
  // Counts an ended engine request. seconds: since the client's request arrived.
  void finished(serve::FinishReason reason, const serve::Usage& usage, double seconds);

  // Returns all metrics as the text of /metrics.
  std::string text(const serve::EngineStatistics& engine) const;

 private:
  mutable std::mutex mutex_;
  std::string label_;  // model_name="..."
  std::map<int, int64_t> statuses_;
  std::map<std::string, int64_t> finished_;
  Histogram first_token_, next_token_, whole_, queue_, prefill_, decode_;
  Histogram prompt_tokens_, generated_tokens_;
};

}  // namespace colossal::server
