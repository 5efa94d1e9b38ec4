#include <ATen/ops/matmul.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/progress.h"
#include "colossal/cli/command.h"
#include "colossal/cli/inference_arguments.h"
#include "colossal/cli/key_flags.h"
#include "colossal/cli/model_source.h"
#include "colossal/cli/model_text.h"
#include "colossal/cli/predictions.h"
#include "colossal/data/images/image_reader.h"
#include "colossal/data/json_line.h"
#include "colossal/data/source_files.h"
#include "colossal/job/parallel_config.h"
#include "colossal/report/batch_output.h"
#include "colossal/text/chat_template.h"
#include "colossal/text/model_folder.h"
#include "colossal/training/image_inputs.h"
#include "colossal/training/paired_texts.h"
#include "colossal/tune/rollout/row_scores.h"

namespace colossal::cli {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;
using nlohmann::ordered_json;
using tune::Labels;

struct ClassifyArguments {
  std::string model;
  std::string adapter;
  std::string text, pair;          // --text, --pair
  std::vector<std::string> image;  // files
  std::vector<std::string> input;  // patterns of jsonl files
  std::vector<std::string> label;  // texts to choose from
  std::string label_template = "{}";
  std::string output;     // file; empty: stdout
  std::string tokenizer;  // empty: the model's
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
  return "Prints, for each text or image, the label that the model gives it and the probability of "
         "each "
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

// Returns what the scores of each line should be; nullopt: the line has no label.
std::vector<std::optional<std::vector<double>>> targets_of(const Texts& texts, const Labels& labels,
                                                           const std::string& field) {
  std::vector<std::optional<std::vector<double>>> targets(texts.lines.size());
  for (size_t i = 0; i < texts.lines.size(); ++i) {
    const auto label = texts.lines[i].find(field);
    if (label == texts.lines[i].end() || label->is_null()) continue;
    try {
      targets[i] = tune::targets_of(json::parse(label->dump()), labels);
    } catch (const data::InvalidLine& error) {
      throw ConfigError(fmt::format("--input: text {}: {}", i + 1, error.what()));
    }
  }
  return targets;
}

// The images to classify.
struct Images {
  std::shared_ptr<const data::ImageSource> source;
  std::vector<ordered_json> lines;
  std::vector<std::optional<std::vector<double>>> targets;
};

Images open_images(const ClassifyArguments& arguments, const Labels& labels) {
  const bool single = !arguments.image.empty();
  Images images;
  images.source =
      data::open_image_source(single ? arguments.image : arguments.input,
                              {.setting = single ? "--image" : "--input", .classes = labels.names});
  for (int64_t i = 0; i < images.source->size(); ++i) {
    ordered_json line{{"image", images.source->name(i)}};
    const std::optional<int64_t> label = images.source->label(i);
    if (label) line["label"] = images.source->classes()[static_cast<size_t>(*label)];
    images.lines.push_back(std::move(line));
    images.targets.emplace_back();
    if (label) images.targets.back() = std::vector{static_cast<double>(*label)};
  }
  return images;
}

// reads_images: whether the model does; --input then names images.
void check(const ClassifyArguments& arguments, bool reads_images) {
  const int given = !arguments.text.empty() + !arguments.image.empty() + !arguments.input.empty();
  if (given != 1) {
    throw ConfigError("give one of --text, --image and --input");
  }
  if (!arguments.pair.empty() && arguments.text.empty()) {
    throw ConfigError("--pair is the second text of a pair; give the first with --text");
  }
  if (!arguments.output.empty() && !arguments.input.empty() && !reads_images) {
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

// What classify() has opened.
struct Opened {
  const models::ModelSpecification& specification;
  const ClassifyConfig& config;
  serve::WeightBits bits;
};

// Computes the scores of `count` inputs on all ranks. On the first, sets the scores and the seconds
// of `predictions`. score: computes them.
template <typename Score>
void compute_scores(const Score& score, int64_t count, const std::string& unit,
                    tune::RowScoring options, InferenceRanks& ranks, Predictions& predictions) {
  if (!ranks.is_first()) {
    score(options);
    return;
  }
  const Clock::time_point start = Clock::now();
  ProgressLine progress("classifying", 0, count, unit);
  options.progress = [&](int64_t done) { progress.update(done, [](double) { return ""; }); };
  predictions.scores = score(options);
  progress.finish();
  predictions.seconds = std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns the function that makes batches of images. `reader` must outlive it.
tune::MakeBatch batches_of(data::ImageReader& reader) {
  return [&reader](std::span<const int64_t> rows) {
    std::vector<data::ImageRequest> requests;
    for (const int64_t row : rows) requests.push_back({.index = row});
    data::ImageBatch images = reader.read(requests);
    std::ranges::fill(images.labels, std::nullopt);
    return image_batch(std::move(images), {rows.begin(), rows.end()});
  };
}

void write_image_predictions(const Predictions& predictions, const ClassifyArguments& arguments) {
  write_predictions(predictions, {.unit = "images",
                                  .file = arguments.output,
                                  .for_people = predictions.lines.size() == 1 && !arguments.json,
                                  .json = arguments.json});
}

void classify_images(const ClassifyArguments& arguments, const Opened& opened,
                     InferenceRanks& ranks) {
  const models::ModelSpecification& specification = opened.specification;
  if (!arguments.text.empty()) {
    throw ConfigError(
        fmt::format("--text: {} reads images; give some with --image or --input", arguments.model));
  }
  const Strategy strategy = resolve_evaluation_ranks(opened.config.parallel, specification.facts,
                                                     specification.facts.positions, ranks.size());
  const Labels labels = models::labels_of(specification);
  Images images = open_images(arguments, labels);
  data::ImageReader reader(images.source,
                           processor_of(arguments.model, *specification.transformer.patches),
                           {.num_threads = static_cast<int>(std::thread::hardware_concurrency())});
  const auto model =
      open_model_over_ranks(specification, opened.config, strategy, ranks, opened.bits);
  Predictions predictions{
      .lines = std::move(images.lines), .targets = std::move(images.targets), .labels = labels};
  compute_scores(
      [&](const tune::RowScoring& options) {
        return tune::scores_of_rows(**model, specification.transformer, images.source->size(),
                                    batches_of(reader), options);
      },
      images.source->size(), "images",
      {.batch = arguments.batch, .device = model->device(), .ranks = model->ranks()}, ranks,
      predictions);
  if (ranks.is_first()) write_image_predictions(predictions, arguments);
}

// Returns --tokenizer, or the folder of the model's own.
std::string name_of_tokenizer(const ClassifyArguments& arguments) {
  if (!arguments.tokenizer.empty()) return arguments.tokenizer;
  return text::ModelFolder(arguments.model, arguments.adapter).tokenizer_folder().string();
}

// Returns the text of each label.
std::vector<std::string> texts_of(const Labels& labels, const ClassifyArguments& arguments) {
  const std::string& form = arguments.label_template;
  const size_t place = form.find("{}");
  if (place == form.npos) {
    throw ConfigError(
        fmt::format("--template=\"{}\": has no {{}}, for which a label is put in; for example \"a "
                    "photo of a {{}}\"",
                    form));
  }
  std::vector<std::string> texts;
  for (const std::string& name : labels.names)
    texts.push_back(std::string(form).replace(place, 2, name));
  return texts;
}

// With a model of two towers: chooses the text for each image that is most similar to it.
void choose_texts(const ClassifyArguments& arguments, const Opened& opened, InferenceRanks& ranks) {
  const models::ModelSpecification& specification = opened.specification;
  const models::TextTower& tower = *specification.text_tower;
  const Strategy strategy = resolve_evaluation_ranks(opened.config.parallel, specification.facts,
                                                     specification.facts.positions, ranks.size());
  Labels labels{.names = arguments.label};
  Images images = open_images(arguments, labels);
  if (labels.names.empty()) labels.names = images.source->classes();
  if (labels.names.empty()) {
    throw ConfigError(
        fmt::format("{}: the model says how similar images and texts are; give the texts to choose "
                    "from, each with --label, or images in folders that name their classes",
                    arguments.model));
  }
  const std::vector<std::string> texts = texts_of(labels, arguments);
  const std::string name = name_of_tokenizer(arguments);
  const auto tokenizer = text::make_tokenizer(name);
  const PairedTexts paired(tower, *tokenizer, name, strategy.sp);
  data::ImageReader reader(images.source,
                           processor_of(arguments.model, *specification.transformer.patches),
                           {.num_threads = static_cast<int>(std::thread::hardware_concurrency())});
  const auto model =
      open_model_over_ranks(specification, opened.config, strategy, ranks, opened.bits);
  const tune::RowScoring how{
      .batch = arguments.batch, .device = model->device(), .ranks = model->ranks()};
  const tune::RowVectors of_texts = tune::vectors_of_rows(
      **model, tower, std::ssize(texts),
      [&](std::span<const int64_t> rows) {
        std::vector<std::string> chosen;
        for (const int64_t row : rows) chosen.push_back(texts[static_cast<size_t>(row)]);
        data::Batch batch{.sample_ids = {rows.begin(), rows.end()}};
        paired.add_to(batch, chosen);
        return batch;
      },
      how);
  Predictions predictions{
      .lines = std::move(images.lines), .targets = std::move(images.targets), .labels = labels};
  compute_scores(
      [&](const tune::RowScoring& options) {
        const tune::RowVectors of_images = tune::vectors_of_rows(
            **model, tower, images.source->size(), batches_of(reader), options);
        return at::matmul(of_images.vectors, of_texts.vectors.t()) *
                   std::exp(of_texts.logit_scale) +
               of_texts.logit_bias;
      },
      images.source->size(), "images", how, ranks, predictions);
  if (ranks.is_first()) write_image_predictions(predictions, arguments);
}

void classify_texts(const ClassifyArguments& arguments, const Opened& opened,
                    InferenceRanks& ranks) {
  const models::ModelSpecification& specification = opened.specification;
  if (!arguments.image.empty()) {
    throw ConfigError(
        fmt::format("--image: {} reads texts; give some with --text or --input", arguments.model));
  }
  const int64_t sequence_length =
      resolve_sequence_length(arguments.sequence_length, kMostDefaultTokens, specification.facts);
  const Strategy strategy = resolve_evaluation_ranks(opened.config.parallel, specification.facts,
                                                     sequence_length, ranks.size());
  const auto tokenizer = text::make_tokenizer(name_of_tokenizer(arguments));
  Texts texts = read_texts(arguments, *tokenizer, sequence_length);
  const auto model =
      open_model_over_ranks(specification, opened.config, strategy, ranks, opened.bits);
  const Labels labels = models::labels_of(specification);
  Predictions predictions{.targets = targets_of(texts, labels, arguments.label_field),
                          .labels = labels};
  predictions.lines = std::move(texts.lines);
  compute_scores(
      [&](const tune::RowScoring& options) {
        return tune::scores_of_texts(**model, specification.transformer, texts.rows,
                                     tokenizer->end_of_text(), options);
      },
      std::ssize(texts.rows), "texts",
      {.batch = arguments.batch, .device = model->device(), .ranks = model->ranks()}, ranks,
      predictions);
  if (!ranks.is_first()) return;
  write_predictions(predictions, {.unit = "texts",
                                  .file = arguments.output,
                                  .for_people = !arguments.text.empty() && !arguments.json,
                                  .json = arguments.json});
}

void classify(ClassifyArguments& arguments, InferenceRanks& ranks) {
  const auto config = parse_flags<ClassifyConfig>(arguments.flags);
  const serve::WeightBits bits = resolve_weight_bits(arguments.quantize);
  prepare(config, ranks);
  const models::ModelSpecification specification =
      resolve_trained_model(arguments.model, "classify", arguments.adapter);
  const bool reads_images = specification.transformer.patches.has_value();
  check(arguments, reads_images);
  const bool chooses = specification.text_tower.has_value();
  if (!chooses && (!arguments.label.empty() || arguments.label_template != "{}")) {
    throw ConfigError(fmt::format(
        "--label and --template: {} has labels of its own; texts to choose from are for "
        "models of images and texts, such as CLIP",
        arguments.model));
  }
  if (!chooses && specification.facts.scores == 0) {
    throw ConfigError(
        fmt::format("{}: this model {} and gives no labels; train a model that does with "
                    "colossal tune classify",
                    arguments.model,
                    specification.transformer.reconstructs ? "reconstructs images"
                    : reads_images                         ? "returns features of images"
                                                           : "predicts tokens"));
  }
  const Opened opened{specification, config, bits};
  if (chooses) return choose_texts(arguments, opened, ranks);
  return reads_images ? classify_images(arguments, opened, ranks)
                      : classify_texts(arguments, opened, ranks);
}

}  // namespace

void add_classify(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ClassifyArguments>();
  CLI::App* command = app.add_subcommand("classify",
                                         "Give texts or images labels, with a model that colossal "
                                         "tune classify has trained, or images texts, with a model "
                                         "such as CLIP");
  find_model_of(*command
                     ->add_option("model", arguments->model,
                                  "A Hugging Face folder, for example a checkpoint; the name of a "
                                  "model that was downloaded from the Hub, such as Qwen/Qwen3-8B")
                     ->required());
  command->add_option("--text", arguments->text, "The text to classify");
  command->add_option("--image", arguments->image, "The image to classify: PNG, JPEG or WebP")
      ->type_name("FILE");
  command->add_option("--pair", arguments->pair, "With --text: the second text of a pair");
  command
      ->add_option(
          "--input", arguments->input,
          "Classify the lines of these jsonl files, or the images of a folder, of jsonl files or "
          "of tar files: paths or glob patterns")
      ->type_name("FILE");
  command->add_option("--label", arguments->label,
                      "With a model of images and texts, such as CLIP: a text to choose from; give "
                      "several [the classes of the images]");
  command
      ->add_option("--template", arguments->label_template,
                   "The text of a label, which is put in for {}, for example \"a photo of a {}\"")
      ->capture_default_str();
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
