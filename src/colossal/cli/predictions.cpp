#include "colossal/cli/predictions.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "colossal/base/units.h"
#include "colossal/engine/score_loss.h"
#include "colossal/io/file.h"
#include "colossal/server/batch_line.h"

namespace colossal::cli {
namespace {

using models::Labels;
using models::Problem;
using nlohmann::ordered_json;

// Returns "prediction" and "probabilities" of a row. scores: [labels].
ordered_json prediction_of(const at::Tensor& scores, const Labels& labels) {
  const double* const values = scores.const_data_ptr<double>();
  const std::vector<double> shares =
      models::probabilities_of({values, values + scores.numel()}, labels.problem);
  if (labels.problem == Problem::regression) {
    return {{"prediction", shares.size() == 1 ? ordered_json(shares[0]) : ordered_json(shares)}};
  }
  ordered_json probabilities = ordered_json::object();
  for (size_t i = 0; i < shares.size(); ++i) probabilities[labels.names[i]] = shares[i];
  const ordered_json prediction = labels.problem == Problem::single_label
                                      ? ordered_json(models::class_of(shares, labels))
                                      : ordered_json(models::likely_labels(shares, labels));
  return {{"prediction", prediction}, {"probabilities", probabilities}};
}

// How right the model is about the rows that have targets.
struct Agreement {
  int64_t rows = 0;
  double loss = 0, accuracy = 0;
};

Agreement compare(const Predictions& predictions) {
  Agreement sum;
  const Problem problem = predictions.labels.problem;
  for (size_t i = 0; i < predictions.lines.size(); ++i) {
    if (!predictions.targets[i]) continue;
    const at::Tensor wanted = at::tensor(*predictions.targets[i], at::kDouble).unsqueeze(0);
    const at::Tensor given = predictions.scores[static_cast<int64_t>(i)].unsqueeze(0);
    sum.loss += label_loss(problem, given, wanted).item<double>();
    sum.accuracy += label_accuracy(problem, given, wanted).item<double>();
    ++sum.rows;
  }
  if (sum.rows > 0) {
    sum.loss /= static_cast<double>(sum.rows);
    sum.accuracy /= static_cast<double>(sum.rows);
  }
  return sum;
}

void print_one(const ordered_json& found) {
  if (!found.contains("probabilities")) {
    fmt::print("{}\n", found["prediction"].dump());
    return;
  }
  const ordered_json& prediction = found["prediction"];
  fmt::print("{}\n", prediction.is_string() ? prediction.get<std::string>() : prediction.dump());
  for (const auto& [name, probability] : found["probabilities"].items()) {
    fmt::print("  {:.4f}  {}\n", probability.get<double>(), name);
  }
}

std::string repeated_lines(const Predictions& predictions) {
  std::string lines;
  for (size_t i = 0; i < predictions.lines.size(); ++i) {
    const at::Tensor scores = predictions.scores[static_cast<int64_t>(i)];
    lines +=
        server::repeat_line(predictions.lines[i], prediction_of(scores, predictions.labels)) + "\n";
  }
  return lines;
}

}  // namespace

void write_predictions(const Predictions& predictions, const PredictionOutput& output) {
  if (!output.file.empty()) {
    io::write_file_atomically(output.file, repeated_lines(predictions));
  } else if (output.for_people) {
    print_one(prediction_of(predictions.scores[0], predictions.labels));
  } else {
    fmt::print("{}", repeated_lines(predictions));
  }
  const Agreement agreement = compare(predictions);
  const char* const measure = score_metric(predictions.labels.problem);
  if (output.json && !output.file.empty()) {
    ordered_json summary{{output.unit, predictions.lines.size()}, {"seconds", predictions.seconds}};
    if (agreement.rows > 0) {
      summary["loss"] = agreement.loss;
      summary[measure] = agreement.accuracy;
    }
    fmt::print("{}\n", summary.dump());
  } else if (agreement.rows > 0) {
    fmt::print(stderr, "{} {} with labels: loss {:.6f}, {} {:.6f}\n", format_count(agreement.rows),
               output.unit, agreement.loss, measure, agreement.accuracy);
  }
}

}  // namespace colossal::cli
