#include <ATen/ops/tensor.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/progress.h"
#include "colossal/base/units.h"
#include "colossal/cli/command.h"
#include "colossal/cli/inference_arguments.h"
#include "colossal/cli/key_flags.h"
#include "colossal/cli/model_source.h"
#include "colossal/cli/model_text.h"
#include "colossal/data/json_line.h"
#include "colossal/data/source_files.h"
#include "colossal/io/file.h"
#include "colossal/job/parallel_config.h"
#include "colossal/report/batch_output.h"
#include "colossal/server/batch_line.h"
#include "colossal/text/chat_template.h"
#include "colossal/text/model_folder.h"
#include "colossal/tune/methods/losses.h"
#include "colossal/tune/rollout/text_scores.h"

namespace colossal::cli {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;
using nlohmann::ordered_json;
using tune::Labels;
using tune::Problem;

struct ClassifyArguments {
  std::string model;
  std::string adapter;
  std::string text, pair;          // --text, --pair
  std::vector<std::string> input;  // patterns of jsonl files
  std::string output;              // file; empty: stdout
  std::string tokenizer;           // empty: the model's
  std::optional<int64_t> sequence_length;
  int64_t batch = 16;
  bool json = false;
  std::string text_field = "text", pair_field = "text_pair", label_field = "label";
  std::optional<int> ranks;
  QuantizeArguments quantize;
  std::vector<std::string> flags;  // --section.key=value
};

constexpr int64_t kMostDefaultTokens = 1024;

struct ClassifyConfig : ModelRanksConfig {};

void describe(ConfigSchema& schema, ClassifyConfig& config) {
  describe(schema, static_cast<InferenceConfig&>(config));
  describe_evaluation_ranks(schema, config.parallel);
}

std::string classify_help() {
  return "Prints, for each text, the label that the model gives it and the probability of each "
         "label; with\nregression, the numbers. --input reads lines like {\"text\": \"...\"}, with "
         "an optional second text in\n\"text_pair\" and an optional \"label\". Each output line "
         "repeats its input line with \"prediction\" and\n\"probabilities\". If the lines have "
         "labels, the mean loss and the accuracy are printed, too.\n\n" +
         help_of_keys<ClassifyConfig>();
}

// The texts to classify: their rows of tokens, and the lines from which they come.
struct Texts {
  std::vector<tune::Row> rows;
  std::vector<ordered_json> lines;
};

Texts read_texts(const ClassifyArguments& arguments, const text::Tokenizer& tokenizer,
                 int64_t sequence_length) {
  Texts texts;
  if (!arguments.text.empty()) {
    const std::string* const pair = arguments.pair.empty() ? nullptr : &arguments.pair;
    text::TypedTokens made = tokenizer.encode_texts(arguments.text, pair, sequence_length);
    tune::Row row{.tokens = std::move(made.tokens), .learned = {}, .types = std::move(made.types)};
    texts.rows.push_back(std::move(row));
    ordered_json line{{arguments.text_field, arguments.text}};
    if (pair) line[arguments.pair_field] = *pair;
    texts.lines.push_back(std::move(line));
    return texts;
  }
  tune::SampleOptions options{.setting = "--input",
                              .kind = tune::SampleKind::labeled,
                              .max_length = sequence_length,
                              .text_field = arguments.text_field,
                              .pair_field = arguments.pair_field,
                              .label_field = arguments.label_field};
  if (auto own = text::ModelFolder(arguments.model, arguments.adapter).chat_template()) {
    options.chat_template = std::make_shared<const text::ChatTemplate>(*std::move(own));
  }
  for (tune::Sample& sample : tune::read_samples(arguments.input, tokenizer, options).samples) {
    texts.rows.push_back(std::move(sample.rows.front()));
  }
  tune::for_each_json_line(arguments.input, "--input", data::InvalidFiles::error,
                           [&](const json& line) { texts.lines.push_back(line); });
  return texts;
}

// Returns "prediction" and "probabilities" of a text. scores: [labels].
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

// How right the model is about the lines that have labels.
struct Agreement {
  int64_t lines = 0;
  double loss = 0, accuracy = 0;
};

Agreement compare(const at::Tensor& scores, const Texts& texts, const Labels& labels,
                  const std::string& field) {
  Agreement sum;
  for (size_t i = 0; i < texts.lines.size(); ++i) {
    const auto label = texts.lines[i].find(field);
    if (label == texts.lines[i].end() || label->is_null()) continue;
    try {
      const std::vector<double> targets = tune::targets_of(json::parse(label->dump()), labels);
      const at::Tensor wanted = at::tensor(targets, at::kDouble).unsqueeze(0);
      const at::Tensor given = scores[static_cast<int64_t>(i)].unsqueeze(0);
      sum.loss += tune::label_loss(labels.problem, given, wanted).item<double>();
      sum.accuracy += tune::label_accuracy(labels.problem, given, wanted).item<double>();
      ++sum.lines;
    } catch (const data::InvalidLine& error) {
      throw ConfigError(fmt::format("--input: text {}: {}", i + 1, error.what()));
    }
  }
  if (sum.lines > 0) {
    sum.loss /= static_cast<double>(sum.lines);
    sum.accuracy /= static_cast<double>(sum.lines);
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

void report(const ClassifyArguments& arguments, const at::Tensor& scores, const Texts& texts,
            const Labels& labels, double seconds) {
  std::string lines;
  for (size_t i = 0; i < texts.lines.size(); ++i) {
    lines += server::repeat_line(texts.lines[i],
                                 prediction_of(scores[static_cast<int64_t>(i)], labels)) +
             "\n";
  }
  const bool summary_is_json = arguments.json && !arguments.output.empty();
  if (!arguments.output.empty()) {
    io::write_file_atomically(arguments.output, lines);
  } else if (!arguments.text.empty() && !arguments.json) {
    print_one(prediction_of(scores[0], labels));
  } else {
    fmt::print("{}", lines);
  }
  const Agreement agreement = compare(scores, texts, labels, arguments.label_field);
  const char* const measure = labels.problem == Problem::regression ? "absolute_error" : "accuracy";
  if (summary_is_json) {
    ordered_json summary{{"texts", texts.rows.size()}, {"seconds", seconds}};
    if (agreement.lines > 0) {
      summary["loss"] = agreement.loss;
      summary[measure] = agreement.accuracy;
    }
    fmt::print("{}\n", summary.dump());
  } else if (agreement.lines > 0) {
    fmt::print(stderr, "{} texts with labels: loss {:.6f}, {} {:.6f}\n",
               format_count(agreement.lines), agreement.loss, measure, agreement.accuracy);
  }
}

void check(const ClassifyArguments& arguments) {
  if (arguments.text.empty() == arguments.input.empty()) {
    throw ConfigError("give either --text or --input");
  }
  if (!arguments.pair.empty() && arguments.text.empty()) {
    throw ConfigError("--pair is the second text of a pair; give the first with --text");
  }
  if (!arguments.output.empty() && !arguments.input.empty()) {
    std::vector<std::string> inputs;
    for (const data::SourceFile& file : data::find_source_files(arguments.input, "--input")) {
      inputs.push_back(file.path);
    }
    report::refuse_input_as_output(inputs, arguments.output, "--output");
  }
  if (arguments.batch < 1) {
    throw ConfigError(fmt::format("--batch={}: must be 1 or more", arguments.batch));
  }
}

void classify(ClassifyArguments& arguments, InferenceRanks& ranks) {
  check(arguments);
  const auto config = parse_flags<ClassifyConfig>(arguments.flags);
  const WeightBits bits = resolve_weight_bits(arguments.quantize);
  prepare(config, ranks);
  const models::ModelSpecification specification =
      resolve_trained_model(arguments.model, "classify texts", arguments.adapter);
  if (specification.facts.scores == 0) {
    throw ConfigError(fmt::format(
        "{}: this model predicts tokens and gives texts no labels; train a model that does with "
        "colossal tune classify",
        arguments.model));
  }
  const int64_t sequence_length =
      resolve_sequence_length(arguments.sequence_length, kMostDefaultTokens, specification.facts);
  const Strategy strategy =
      resolve_evaluation_ranks(config.parallel, specification.facts, sequence_length, ranks.size());
  const auto tokenizer = text::make_tokenizer(
      arguments.tokenizer.empty()
          ? text::ModelFolder(arguments.model, arguments.adapter).tokenizer_folder().string()
          : arguments.tokenizer);
  const Texts texts = read_texts(arguments, *tokenizer, sequence_length);
  const auto model = open_model_over_ranks(specification, config, strategy, ranks, bits);
  const tune::TextScoring options{.batch = arguments.batch,
                                  .padding = tokenizer->end_of_text(),
                                  .device = model->device(),
                                  .ranks = model->ranks()};
  if (!ranks.is_first()) {
    tune::scores_of_texts(**model, specification.transformer, texts.rows, options);
    return;
  }
  const Clock::time_point start = Clock::now();
  ProgressLine progress("classifying", 0, std::ssize(texts.rows), "texts");
  const at::Tensor scores = tune::scores_of_texts(
      **model, specification.transformer, texts.rows, options,
      [&](int64_t done) { progress.update(done, [](double) { return ""; }); });
  progress.finish();
  report(arguments, scores, texts, models::labels_of(specification),
         std::chrono::duration<double>(Clock::now() - start).count());
}

}  // namespace

void add_classify(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ClassifyArguments>();
  CLI::App* command = app.add_subcommand(
      "classify", "Give texts labels with a model that colossal tune classify has trained");
  find_model_of(*command
                     ->add_option("model", arguments->model,
                                  "A Hugging Face folder, for example a checkpoint; the name of a "
                                  "model that was downloaded from the Hub, such as Qwen/Qwen3-8B")
                     ->required());
  command->add_option("--text", arguments->text, "The text to classify");
  command->add_option("--pair", arguments->pair, "With --text: the second text of a pair");
  command
      ->add_option("--input", arguments->input,
                   "Classify the lines of these jsonl files: paths or glob patterns")
      ->type_name("FILE");
  command->add_option("--output", arguments->output, "Write the lines to this file [stdout]")
      ->type_name("FILE");
  command->add_option("--text-field", arguments->text_field, "The field of the text in a line")
      ->capture_default_str();
  command->add_option("--pair-field", arguments->pair_field, "The field of the second text")
      ->capture_default_str();
  command->add_option("--label-field", arguments->label_field, "The field of the label")
      ->capture_default_str();
  command->add_option(
      "--tokenizer", arguments->tokenizer,
      "The tokenizer: \"bytes\", a tokenizer.json, or a folder with one [the model's]");
  command->add_option("--sequence-length", arguments->sequence_length,
                      fmt::format("Most tokens of a text; longer texts are cut at the end [the "
                                  "model's maximum length, at most {}]",
                                  format_count(kMostDefaultTokens)));
  command
      ->add_option("--batch", arguments->batch,
                   "Texts per forward pass of each replica. Affects speed and memory, not the "
                   "result")
      ->capture_default_str();
  command->add_flag("--json", arguments->json,
                    "Print JSON: a line for each text, or with --output one object about all");
  add_quantize(*command, arguments->quantize);
  add_adapter_option(*command, arguments->adapter);
  add_ranks_option(
      *command, arguments->ranks,
      "Start this many ranks on this machine; must equal parallel.dp x pp x sp x tp [1]");
  command->allow_extras();
  command->footer(classify_help);
  command->callback([arguments, command, &exit_code] {
    arguments->flags = key_flags<ClassifyConfig>(*command);
    InferenceRanks ranks(arguments->ranks);
    exit_code = ranks.guarded([&] { classify(*arguments, ranks); });
  });
}

}  // namespace colossal::cli
