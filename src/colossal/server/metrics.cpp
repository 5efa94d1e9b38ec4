#include "colossal/server/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace colossal::server {
namespace {

const std::vector<double> kSeconds{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                   0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                   20,    40,    80,   160,  640,  2560};
const std::vector<double> kTokens{1,   2,    5,    10,   20,    50,    100,   200,
                                  500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

void describe(std::string& text, std::string_view name, std::string_view type,
              std::string_view help) {
  text += fmt::format("# HELP colossal:{0} {2}\n# TYPE colossal:{0} {1}\n", name, type, help);
}

template <class T>
void write_value(std::string& text, std::string_view name, std::string_view type,
                 std::string_view help, const std::string& label, T value) {
  describe(text, name, type, help);
  text += fmt::format("colossal:{}{{{}}} {}\n", name, label, value);
}

const char* reason_name(serve::FinishReason reason) {
  switch (reason) {
    case serve::FinishReason::stop:
      return "stop";
    case serve::FinishReason::length:
      return "length";
    case serve::FinishReason::cancelled:
      return "abort";
    case serve::FinishReason::failed:
      return "error";
  }
  return "";
}

// Escapes a label's value for the Prometheus text format; a newline becomes a space.
std::string escaped_label(const std::string& text) {
  std::string escaped;
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') escaped += '\\';
    escaped += byte == '\n' ? ' ' : byte;
  }
  return escaped;
}

}  // namespace

void Histogram::add(double value) {
  ++counts_[std::ranges::lower_bound(bounds_, value) - bounds_.begin()];
  sum_ += value;
}

void Histogram::write(std::string& text, const std::string& name, const std::string& help,
                      const std::string& label) const {
  describe(text, name, "histogram", help);
  int64_t count = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    text += fmt::format("colossal:{}_bucket{{{},le=\"{}\"}} {}\n", name, label, bound, count);
  }
  text += fmt::format("colossal:{0}_sum{{{1}}} {2}\ncolossal:{0}_count{{{1}}} {3}\n", name, label,
                      sum_, count);
}

Metrics::Metrics(std::string model_name)
    : label_(fmt::format("model_name=\"{}\"", escaped_label(model_name))),
      first_token_(kSeconds),
      next_token_(kSeconds),
      whole_(kSeconds),
      queue_(kSeconds),
      prefill_(kSeconds),
      decode_(kSeconds),
      prompt_tokens_(kTokens),
      generated_tokens_(kTokens) {}

void Metrics::answered(int status) {
  const std::lock_guard lock(mutex_);
  ++statuses_[status];
}

void Metrics::token(double seconds, bool first) {
  const std::lock_guard lock(mutex_);
  (first ? first_token_ : next_token_).add(seconds);
}

void Metrics::finished(serve::FinishReason reason, const serve::Usage& usage, double seconds,
                       const std::string& model) {
  const std::lock_guard lock(mutex_);
  ++finished_[{model, reason_name(reason)}];
  whole_.add(seconds);
  queue_.add(usage.queue_seconds);
  prefill_.add(usage.prefill_seconds);
  decode_.add(usage.decode_seconds);
  prompt_tokens_.add(static_cast<double>(usage.prompt_tokens));
  generated_tokens_.add(static_cast<double>(usage.completion_tokens));
}

std::string Metrics::text(const serve::EngineStatistics& engine) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const auto gauge = [&](std::string_view name, std::string_view help, auto value) {
    write_value(text, name, "gauge", help, label_, value);
  };
  const auto counter = [&](std::string_view name, std::string_view help, auto value) {
    write_value(text, name, "counter", help, label_, value);
  };
  gauge("num_requests_running", "Requests in the running batch.", engine.running);
  gauge("num_requests_waiting", "Requests waiting for a place in the batch.", engine.waiting);
  gauge("kv_cache_usage_perc", "Fraction of the KV cache pages in use, from 0 to 1.",
        engine.pages > 0
            ? static_cast<double>(engine.pages_in_use) / static_cast<double>(engine.pages)
            : 0.0);
  gauge("kv_cache_pages_used", "KV cache pages that requests use.", engine.pages_in_use);
  gauge("kv_cache_pages", "KV cache pages in total.", engine.pages);
  counter("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
          engine.prefix_queries);
  counter("prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
          engine.prefix_hits);
  counter("num_preemptions_total", "Requests preempted to free their pages for others.",
          engine.preemptions);
  counter("spec_decode_num_drafts_total", "Number of drafts, each of which guesses several tokens.",
          engine.drafts);
  counter("spec_decode_num_draft_tokens_total", "Guessed tokens.", engine.draft_tokens);
  counter("spec_decode_num_accepted_tokens_total", "Guessed tokens that were accepted.",
          engine.accepted_tokens);
  counter("spec_decode_num_draft_failures_total",
          "Failures of drafting; texts do not depend on it.", engine.draft_failures);
  counter("prompt_tokens_total", "Prompt tokens computed.", engine.prompt_tokens);
  counter("generation_tokens_total", "Tokens generated.", engine.generated_tokens);
  describe(text, "request_success_total", "counter",
           "Finished requests, by the model or adapter that they name and by reason.");
  for (const auto& [key, count] : finished_) {
    text += fmt::format(
        "colossal:request_success_total{{model_name=\"{}\",finished_reason=\"{}\"}} {}\n",
        escaped_label(key.first), key.second, count);
  }
  describe(text, "http_responses_total", "counter", "HTTP responses, by status.");
  for (const auto& [status, count] : statuses_) {
    text += fmt::format("colossal:http_responses_total{{{},status=\"{}\"}} {}\n", label_, status,
                        count);
  }
  const auto histogram = [&](const Histogram& of, const char* name, const char* help) {
    of.write(text, name, help, label_);
  };
  histogram(first_token_, "time_to_first_token_seconds",
            "Seconds from a request's arrival to its first token.");
  histogram(next_token_, "inter_token_latency_seconds", "Seconds from one token to the next.");
  histogram(whole_, "e2e_request_latency_seconds", "Seconds from a request's arrival to its end.");
  histogram(queue_, "request_queue_time_seconds", "Seconds in the queue.");
  histogram(prefill_, "request_prefill_time_seconds", "Seconds until the prompt was computed.");
  histogram(decode_, "request_decode_time_seconds", "Seconds for the tokens after the first.");
  histogram(prompt_tokens_, "request_prompt_tokens", "Tokens per prompt.");
  histogram(generated_tokens_, "request_generation_tokens", "Tokens per answer.");
  return text;
}

}  // namespace colossal::server
