#include "colossal/models/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace colossal::models {

const char* problem_name(Problem problem) {
  static const auto names = config_names(Problem());
  return std::ranges::find(names, problem, &std::pair<std::string, Problem>::second)->first.c_str();
}

Labels labels_of(const ModelSpecification& specification) {
  const int64_t count = specification.transformer.scores;
  Labels labels{count == 1 ? Problem::regression : Problem::single_label, numbered_labels(count)};
  const nlohmann::json& fields = specification.other_fields;
  const nlohmann::json names = fields.value("id2label", nlohmann::json());
  for (int64_t i = 0; i < count && names.is_object(); ++i) {
    const auto name = names.find(fmt::format("{}", i));
    if (name != names.end() && name->is_string()) labels.names[i] = name->get<std::string>();
  }
  const nlohmann::json type = fields.value("problem_type", nlohmann::json());
  for (const auto& [name, problem] : config_names(Problem())) {
    if (type == name) labels.problem = problem;
  }
  return labels;
}

std::vector<double> probabilities_of(const std::vector<double>& scores, Problem problem) {
  std::vector<double> shares = scores;
  if (problem == Problem::multi_label) {
    for (double& share : shares) share = 1 / (1 + std::exp(-share));
  }
  if (problem != Problem::single_label) return shares;
  const double most = std::ranges::max(shares);
  for (double& share : shares) share = std::exp(share - most);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

const std::string& class_of(const std::vector<double>& probabilities, const Labels& labels) {
  return labels.names[std::ranges::max_element(probabilities) - probabilities.begin()];
}

std::vector<std::string> likely_labels(const std::vector<double>& probabilities,
                                       const Labels& labels) {
  std::vector<std::string> likely;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] > 0.5) likely.push_back(labels.names[i]);
  }
  return likely;
}

}  // namespace colossal::models
