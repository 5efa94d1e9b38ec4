// The labels that a model gives to texts: classes, several tags, or numbers. Reads them from data
// and from a model's config.json.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/data/tokenize.h"
#include "colossal/models/families.h"

namespace colossal::tune {

// What the scores of a model mean; config_names() has the names in config.json (problem_type).
enum class Problem {
  single_label,  // a text has one of several classes; scores are logits, of which softmax is taken
  multi_label,   // a text has any number of labels; scores are logits, of which sigmoid is taken
  regression     // a text has a number for each score
};
inline std::vector<std::pair<std::string, Problem>> config_names(Problem) {
  return {{"single_label_classification", Problem::single_label},
          {"multi_label_classification", Problem::multi_label},
          {"regression", Problem::regression}};
}
const char* problem_name(Problem problem);

struct Labels {
  Problem problem = Problem::single_label;
  std::vector<std::string> names;  // one per score
};

// Finds the labels in all lines of jsonl files. A line's label, in the field `field`, is
//   a text, or true or false: the name of a class; classes are sorted by name
//   a whole number n: class number n of as many as the largest number needs, named LABEL_n
//   a list of texts: multi_label
//   a number with a decimal point, or any number if `problem` is regression: regression
// problem: nullopt: follows from the first line. setting: configuration key that names the files.
// Throws ConfigError that names file and line for a label of another kind than the first.
// With data::InvalidFiles::skip, such a line is skipped.
Labels find_labels(const std::vector<std::string>& patterns, const std::string& setting,
                   const std::string& field, std::optional<Problem> problem,
                   data::InvalidFiles invalid);

// Returns the labels of a model with a head for scores, from id2label and problem_type in its
// config.json. Without problem_type, a model with one score is one of regression, and one with
// several scores has classes, as in transformers.
Labels labels_of(const models::ModelSpecification& specification);

// Returns what a model is trained to give to a text with this label: for single_label, the index of
// its class; for multi_label, 0 or 1 for each of the names; for regression, a number for each
// score. Throws data::InvalidLine if the label is of another kind or is not among the names.
std::vector<double> targets_of(const nlohmann::json& label, const Labels& labels);

}  // namespace colossal::tune
