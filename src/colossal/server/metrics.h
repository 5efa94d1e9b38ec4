// The metrics of the server's route /metrics, in Prometheus text format 0.0.4. Where vLLM has the
// same metric, the name is vLLM's, with the prefix "colossal:" instead of "vllm:".
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "colossal/serve/engine.h"

namespace colossal::server {

// A Prometheus histogram. Not thread-safe.
class Histogram {
 public:
  // bounds: upper bounds of the buckets, ascending. A last bucket without an upper bound is added.
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  // Counts a value in its bucket.
  void add(double value);
  // Appends the histogram to `text` in Prometheus text format. name: without the prefix. help: one
  // line that describes the metric. label: such as `model_name="a"`.
  void write(std::string& text, const std::string& name, const std::string& help,
             const std::string& label) const;

 private:
  std::vector<double> bounds_;  // upper bounds, ascending
  // By bucket: number of values up to its bound and above the bound before; last: above all bounds.
  std::vector<int64_t> counts_;
  double sum_ = 0;
};

// Collects the metrics of one server. A client's HTTP request may consist of several engine
// requests, i.e. calls of serve::Engine::submit(): for several prompts or several answers.
// Thread-safe.
class Metrics {
 public:
  // model_name: value of the label of all metrics.
  explicit Metrics(std::string model_name);

  // Counts a complete HTTP response by its status.
  void answered(int status);
  // Counts a generated token. seconds: time since the previous token of the same answer; for the
  // first token of an answer, since the client's request arrived.
  void token(double seconds, bool first);
  // Counts an engine request that has ended. seconds: time since the client's request arrived.
  // model: the name in the request, of the base model or of an adapter.
  void finished(serve::FinishReason reason, const serve::Usage& usage, double seconds,
                const std::string& model);

  // Returns all metrics as the text of /metrics.
  std::string text(const serve::EngineStatistics& engine) const;

 private:
  mutable std::mutex mutex_;
  std::string label_;                // model_name="..."
  std::map<int, int64_t> statuses_;  // number of responses by HTTP status
  // Number of engine requests by the request's model and reason.
  std::map<std::pair<std::string, std::string>, int64_t> finished_;
  // In seconds: to the first token, between tokens, whole requests, and their phases.
  Histogram first_token_, next_token_, whole_, queue_, prefill_, decode_;
  // In tokens per engine request.
  Histogram prompt_tokens_, generated_tokens_;
};

}  // namespace colossal::server
