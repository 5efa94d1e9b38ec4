// The labels that a model with a head for scores gives to texts: classes, several tags, or numbers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "colossal/models/families.h"

namespace colossal::models {

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

// Returns the labels of a model with a head for scores, from id2label and problem_type in its
// config.json. Without problem_type, a model with one score is one of regression, and one with
// several scores has classes, as in transformers.
Labels labels_of(const ModelSpecification& specification);

// Returns what the scores of a text mean, one number per label: single_label: the softmax of the
// scores; multi_label: the sigmoid of each; regression: the scores.
std::vector<double> probabilities_of(const std::vector<double>& scores, Problem problem);
// Returns the name of the most likely class. labels.problem must be single_label.
const std::string& class_of(const std::vector<double>& probabilities, const Labels& labels);
// Returns the names of the labels with a probability above one half, for multi_label.
std::vector<std::string> likely_labels(const std::vector<double>& probabilities,
                                       const Labels& labels);

}  // namespace colossal::models
