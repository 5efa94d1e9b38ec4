#include "colossal/report/metrics_log.h"

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "colossal/base/error.h"

namespace colossal::report {
namespace {

using nlohmann::json;

[[noreturn]] void raise_unreadable(const std::filesystem::path& path) {
  throw IoError(
      fmt::format("cannot read {}: {}", path.string(), std::generic_category().message(errno)));
}

double number_or_missing(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : StepMetrics::kMissing;
}

std::map<std::string, double> numbers_by_name(const json& object, const char* key) {
  std::map<std::string, double> numbers;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_object()) return numbers;
  for (const auto& [name, number] : found->items()) {
    if (number.is_number()) numbers[name] = number.get<double>();
  }
  return numbers;
}

// Reads "host_bytes": 1, "tier_bytes": {"host": {"optimizer": {"to": 1, "from": 1}}}.
std::map<std::string, TierMetrics> tiers_of(const json& object) {
  std::map<std::string, TierMetrics> tiers;
  const auto found = object.find("tier_bytes");
  if (found == object.end() || !found->is_object()) return tiers;
  for (const auto& [tier, kinds] : found->items()) {
    if (!kinds.is_object()) continue;
    TierMetrics& metrics = tiers[tier];
    metrics.at_rest = number_or_missing(object, (tier + "_bytes").c_str());
    for (const auto& [kind, moved] : kinds.items()) {
      if (!moved.is_object()) continue;
      metrics.moved[kind] = {number_or_missing(moved, "to"), number_or_missing(moved, "from")};
    }
  }
  return tiers;
}

bool is_step(const json& object) {
  if (!object.is_object()) return false;
  const auto step = object.find("step");
  return step != object.end() && step->is_number_integer();
}

json parse_or_discarded(std::string_view text) {
  return json::parse(text, nullptr, false);
}

// Parses a line. If it is not JSON, looks for a whole object after an incomplete one: `{"loss":
// 2.{"loss": 2.1, ...}`.
std::optional<json> parse_line(std::string_view line) {
  json object = parse_or_discarded(line);
  for (size_t begin = line.find('{', 1); object.is_discarded() && begin != line.npos;
       begin = line.find('{', begin + 1)) {
    json rest = parse_or_discarded(line.substr(begin));
    if (is_step(rest)) object = std::move(rest);
  }
  if (!is_step(object)) return std::nullopt;
  return object;
}

// Whether a key is a metric of the task: all keys except those that the trainer writes.
bool is_of_task(const std::string& key) {
  static const std::set<std::string> others{"step",
                                            "loss",
                                            "validation_loss",
                                            "grad_norm",
                                            "learning_rate",
                                            "tokens",
                                            "tokens_per_second",
                                            "images",
                                            "images_per_second",
                                            "step_seconds",
                                            "evaluation_seconds",
                                            "model_flops_utilization",
                                            "memory_peak_bytes",
                                            "memory_at_peak",
                                            "memory_base_bytes",
                                            "device_peak_bytes",
                                            "fallbacks",
                                            "host_bytes",
                                            "nvme_bytes",
                                            "skipped"};
  return !others.contains(key);
}

std::map<std::string, double> task_metrics_of(const json& object) {
  std::map<std::string, double> metrics;
  for (const auto& [key, value] : object.items()) {
    if (value.is_number() && is_of_task(key)) metrics[key] = value.get<double>();
  }
  return metrics;
}

StepMetrics metrics_of(const json& object) {
  StepMetrics metrics;
  metrics.step = object["step"].get<int64_t>();
  metrics.loss = number_or_missing(object, "loss");
  metrics.validation_loss = number_or_missing(object, "validation_loss");
  metrics.grad_norm = number_or_missing(object, "grad_norm");
  metrics.learning_rate = number_or_missing(object, "learning_rate");
  metrics.tokens = number_or_missing(object, "tokens");
  metrics.tokens_per_second = number_or_missing(object, "tokens_per_second");
  metrics.images = number_or_missing(object, "images");
  metrics.images_per_second = number_or_missing(object, "images_per_second");
  metrics.step_seconds = number_or_missing(object, "step_seconds");
  metrics.evaluation_seconds = number_or_missing(object, "evaluation_seconds");
  metrics.model_flops_utilization = number_or_missing(object, "model_flops_utilization");
  metrics.memory_peak_bytes = number_or_missing(object, "memory_peak_bytes");
  metrics.device_peak_bytes = number_or_missing(object, "device_peak_bytes");
  metrics.fallbacks = number_or_missing(object, "fallbacks");
  metrics.memory_by_kind = numbers_by_name(object, "memory_by_kind");
  metrics.memory_at_peak = number_or_missing(object, "memory_at_peak");
  metrics.memory_base_bytes = number_or_missing(object, "memory_base_bytes");
  metrics.tiers = tiers_of(object);
  metrics.bytes_sent = numbers_by_name(object, "bytes_sent");
  metrics.task_metrics = task_metrics_of(object);
  if (const auto skipped = object.find("skipped"); skipped != object.end()) {
    metrics.skipped = *skipped == true || (skipped->is_number() && *skipped != 0);
  }
  if (metrics.skipped && metrics.loss == 0) metrics.loss = StepMetrics::kMissing;
  return metrics;
}

}  // namespace

std::vector<StepMetrics> read_metrics(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) raise_unreadable(path);
  std::map<int64_t, StepMetrics> by_step;
  for (std::string line; std::getline(file, line);) {
    if (const std::optional<json> object = parse_line(line)) {
      StepMetrics metrics = metrics_of(*object);
      by_step.insert_or_assign(metrics.step, std::move(metrics));
    }
  }
  if (file.bad()) raise_unreadable(path);
  std::vector<StepMetrics> steps;
  steps.reserve(by_step.size());
  for (auto& [step, metrics] : by_step) steps.push_back(std::move(metrics));
  return steps;
}

}  // namespace colossal::report
