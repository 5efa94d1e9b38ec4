#include "colossal/models/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

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

}  // namespace colossal::models
