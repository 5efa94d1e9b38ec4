#include "colossal/tune/rollout/generation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace colossal::tune {
namespace {

// Returns a JSON list, with null for NaN, which JSON does not have.
nlohmann::json numbers(const std::vector<double>& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const double value : values) {
    list.push_back(std::isnan(value) ? nlohmann::json() : nlohmann::json(value));
  }
  return list;
}

std::vector<double> numbers(const nlohmann::json& list) {
  std::vector<double> values;
  for (const nlohmann::json& value : list) {
    values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                     : value.get<double>());
  }
  return values;
}

struct Lengths {
  double sum = 0, least = 0, most = 0, count = 0;

  void add(double length) {
    least = count == 0 ? length : std::min(least, length);
    most = std::max(most, length);
    sum += length;
    ++count;
  }
  double mean() const { return count > 0 ? sum / count : 0; }
};

ScoredCompletion scored_completion_from_json(const nlohmann::json& json) {
  return {.position = json.at("position"),
          .number = json.at("number"),
          .completion = completion_from_json(json),
          .versions = json.at("versions"),
          .rewards = numbers(json.at("rewards")),
          .old = json.at("old"),
          .reference = json.at("reference"),
          .values = json.at("values"),
          .advantage = json.at("advantage"),
          .token_advantages = json.at("token_advantages"),
          .returns = json.at("returns")};
}

}  // namespace

double ScoredCompletion::kl() const {
  double sum = 0;
  for (size_t i = 0; i < reference.size(); ++i) sum += old[i] - reference[i];
  return sum;
}

nlohmann::json to_json(const ScoredCompletion& completion) {
  nlohmann::json json = to_json(completion.completion);
  json.update({{"position", completion.position},
               {"number", completion.number},
               {"versions", completion.versions},
               {"rewards", numbers(completion.rewards)},
               {"old", completion.old},
               {"reference", completion.reference},
               {"values", completion.values},
               {"advantage", completion.advantage},
               {"token_advantages", completion.token_advantages},
               {"returns", completion.returns}});
  return json;
}

nlohmann::json to_json(const std::vector<ScoredCompletion>& completions) {
  nlohmann::json list = nlohmann::json::array();
  for (const ScoredCompletion& each : completions) list.push_back(to_json(each));
  return list;
}

std::vector<ScoredCompletion> completions_from_json(const nlohmann::json& json) {
  std::vector<ScoredCompletion> completions;
  for (const nlohmann::json& each : json) completions.push_back(scored_completion_from_json(each));
  return completions;
}

nlohmann::json to_json(const Generation& generation) {
  return {{"completions", to_json(generation.completions)},
          {"mean_learned", generation.mean_learned},
          {"metrics", generation.metrics}};
}

Generation generation_from_json(const nlohmann::json& json) {
  return {.completions = completions_from_json(json.at("completions")),
          .mean_learned = json.at("mean_learned"),
          .metrics = json.at("metrics")};
}

std::map<std::string, double> length_metrics(const std::vector<ScoredCompletion>& completions) {
  Lengths all, ended;
  double entropy = 0;
  for (const ScoredCompletion& each : completions) {
    const auto length = static_cast<double>(each.completion.tokens.size());
    all.add(length);
    if (each.completion.ended) ended.add(length);
    entropy += each.completion.entropy;
  }
  return {{"completions/mean_length", all.mean()},
          {"completions/min_length", all.least},
          {"completions/max_length", all.most},
          {"completions/mean_terminated_length", ended.mean()},
          {"completions/min_terminated_length", ended.least},
          {"completions/max_terminated_length", ended.most},
          {"completions/clipped_ratio", 1 - ended.count / std::max(1.0, all.count)},
          {"entropy", entropy / std::max(1.0, all.sum)}};
}

}  // namespace colossal::tune
