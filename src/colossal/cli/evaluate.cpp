#include "colossal/serve/evaluate.h"

#include <fmt/ranges.h>

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
#include "colossal/job/parallel_config.h"
#include "colossal/job/run_config.h"
#include "colossal/text/model_folder.h"

namespace colossal::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostDefaultSequence = 1024;

struct EvaluateArguments {
  std::string model;
  std::string adapter;
  std::vector<std::string> text;  // patterns of files
  std::string tokenizer;          // empty: the model's
  std::optional<int64_t> sequence_length;
  int64_t batch = 4;
  bool json = false;
  std::optional<int> ranks;
  QuantizeArguments quantize;
  std::vector<std::string> flags;  // --section.key=value
};

struct EvaluateConfig : ModelRanksConfig {
  DataConfig data;  // how files become text
};

void describe(ConfigSchema& schema, EvaluateConfig& config) {
  describe(schema, static_cast<InferenceConfig&>(config));
  describe_evaluation_ranks(schema, config.parallel);
  describe_text(schema, config.data);
}

std::string evaluate_help() {
  return "The documents of the files, sorted by path, are joined into one text, with the "
         "tokenizer's\nend-of-text token between them. Each token but the first is predicted once. "
         "The text is\ncut into rows of --sequence-length = S tokens. A prediction sees only the "
         "tokens before\nit in its own row, even if they belong to another document: 1 token at "
         "the start of a row,\nS at its end. The last row is shorter. A larger S gives more "
         "context, and usually a lower\nloss.\n\nAn encoder, such as BERT, predicts masked tokens "
         "instead: 15 % of a row's tokens, always the\nsame ones, from all the others of the "
         "row.\n\n" +
         help_of_keys<EvaluateConfig>();
}

void print(const serve::Evaluation& evaluation, double seconds, bool as_json) {
  const double tokens_per_second = static_cast<double>(evaluation.tokens) / seconds;
  if (as_json) {
    const nlohmann::ordered_json json{{"loss", evaluation.loss()},
                                      {"perplexity", evaluation.perplexity()},
                                      {"tokens", evaluation.tokens},
                                      {"seconds", seconds},
                                      {"tokens_per_second", tokens_per_second}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("loss        {:.6f}\nperplexity  {:.6g}\ntokens      {}\ntokens/s    {:.0f}\n",
             evaluation.loss(), evaluation.perplexity(), format_count(evaluation.tokens),
             tokens_per_second);
}

void evaluate(EvaluateArguments& arguments, InferenceRanks& ranks) {
  const auto config = parse_flags<EvaluateConfig>(arguments.flags);
  const serve::WeightBits bits = resolve_weight_bits(arguments.quantize);
  prepare(config, ranks);
  const ModelSource source(std::exchange(arguments.model, ""), config.compute);
  arguments.model = source.folder();
  const models::ModelSpecification specification =
      resolve_trained_model(arguments.model, "evaluate", arguments.adapter);
  require_texts(specification, "evaluate");
  if (specification.facts.scores > 0) {
    throw ConfigError(
        fmt::format("{}: this model gives labels or scores to texts and predicts no "
                    "tokens; use colossal classify",
                    arguments.model));
  }
  if (!specification.missing_prefix.empty()) {
    throw ConfigError(
        fmt::format("{}: this folder has no head ({}), so its model predicts nothing; use a folder "
                    "of {}",
                    arguments.model, fmt::join(specification.newly_initialized, ", "),
                    specification.config.at("architectures")[0].get<std::string>()));
  }
  if (specification.facts.encoder_layers > 0) {
    throw ConfigError(fmt::format(
        "{}: this model ({}) is an encoder-decoder, whose loss needs pairs of texts; give them as "
        "data.validation of colossal tune sft",
        arguments.model, specification.facts.family));
  }
  serve::EvaluateOptions options{
      .sequence_length = resolve_sequence_length(arguments.sequence_length, kMostDefaultSequence,
                                                 specification.facts),
      .batch = arguments.batch};
  const Strategy strategy = resolve_evaluation_ranks(config.parallel, specification.facts,
                                                     options.sequence_length, ranks.size());
  const std::string tokenizer =
      arguments.tokenizer.empty()
          ? text::ModelFolder(arguments.model, arguments.adapter).tokenizer_folder().string()
          : arguments.tokenizer;
  const data::Corpus corpus =
      open_model_text(arguments.text, tokenizer, specification.facts, config.data, config.threads);
  const auto model = open_model_over_ranks(specification, config, strategy, ranks, bits);
  if (!specification.facts.causal) {
    options.masks = data::mask_options(*text::make_tokenizer(tokenizer), tokenizer,
                                       specification.facts.vocabulary);
  }
  options.device = model->device();
  options.ranks = model->ranks();
  if (!ranks.is_first()) {
    serve::evaluate(**model, corpus, options);
    return;
  }
  const Clock::time_point start = Clock::now();
  const int64_t targets = corpus.num_tokens() - (options.masks ? 0 : 1);
  ProgressLine progress("evaluating", 0, targets, "tokens");
  const serve::Evaluation evaluation =
      serve::evaluate(**model, corpus, options, [&](const serve::Evaluation& done) {
        progress.update(done.read, [=](double) { return fmt::format("loss {:.4f}", done.loss()); });
      });
  progress.finish();
  print(evaluation, std::chrono::duration<double>(Clock::now() - start).count(), arguments.json);
}

}  // namespace

void add_evaluate(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* command = app.add_subcommand(
      "evaluate", "Measure how well a model predicts a text: loss and perplexity");
  find_model_of(
      *command
           ->add_option("model", arguments->model,
                        "A Hugging Face folder, for example a checkpoint; the name of a model that "
                        "was downloaded from the Hub, such as Qwen/Qwen3-8B; or a GGUF file")
           ->required());
  command
      ->add_option("--data,--text", arguments->text,
                   "The files of the text: paths or glob patterns, as in data.train")
      ->type_name("FILE")
      ->required();
  command->add_option(
      "--tokenizer", arguments->tokenizer,
      "The tokenizer: \"bytes\", a tokenizer.json, or a folder with one [the model's]");
  command->add_option("--sequence-length", arguments->sequence_length,
                      fmt::format("Tokens per row [the model's maximum length, at most {}]",
                                  format_count(kMostDefaultSequence)));
  command
      ->add_option(
          "--batch", arguments->batch,
          "Rows per forward pass of each replica. Affects speed and memory, not the result")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print one JSON object instead of text");
  add_quantize(*command, arguments->quantize);
  add_adapter_option(*command, arguments->adapter);
  add_ranks_option(
      *command, arguments->ranks,
      "Start this many ranks on this machine; must equal parallel.dp x pp x sp x tp [1]");
  command->allow_extras();
  command->footer(evaluate_help);
  command->callback([arguments, command, &exit_code] {
    arguments->flags = key_flags<EvaluateConfig>(*command);
    InferenceRanks ranks(arguments->ranks);
    exit_code = ranks.guarded([&] { evaluate(*arguments, ranks); });
  });
}

}  // namespace colossal::cli
