// Writes what a model that gives scores says of texts or images: `colossal classify`.
#pragma once

#include <ATen/core/Tensor.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/models/labels.h"

namespace colossal::cli {

// Texts or images, and their scores.
struct Predictions {
  std::vector<nlohmann::ordered_json> lines;  // the inputs
  at::Tensor scores;                          // [lines, labels], fp64 on the host
  // What the scores should be (data::kTargets); nullopt: unknown.
  std::vector<std::optional<std::vector<double>>> targets;
  models::Labels labels;
  double seconds = 0;
};

struct PredictionOutput {
  std::string unit = "texts";
  std::string file;         // empty: stdout
  bool for_people = false;  // the prediction of a single input, on stdout
  bool json = false;        // with a file: a JSON object about all inputs on stdout
};

// Writes each line with "prediction" and "probabilities" and, if inputs have targets, the mean loss
// and the accuracy.
void write_predictions(const Predictions& predictions, const PredictionOutput& output);

}  // namespace colossal::cli
