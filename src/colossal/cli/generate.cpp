#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "colossal/cli/chat.h"
#include "colossal/cli/command.h"
#include "colossal/cli/generate_file.h"
#include "colossal/cli/generation_arguments.h"
#include "colossal/cli/inference_arguments.h"
#include "colossal/cli/model_source.h"
#include "colossal/cli/rank_timeout.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/forward_pass.h"
#include "colossal/serve/stop_strings.h"
#include "colossal/text/model_folder.h"
#include "colossal/text/streaming_decoder.h"
#include "colossal/text/tokenizer.h"

namespace colossal::cli {
namespace {

struct GenerateArguments {
  std::string model;
  std::string adapter;
  std::optional<std::string> prompt;
  bool chat = false;
  GenerateFileArguments file;  // its request and texts are used with --prompt and --chat too
  GenerationArguments generation;
  std::optional<int> ranks;
  QuantizeArguments quantize;
  SpeculationArguments speculation;
  bool int8_key_values = false;
  std::optional<std::string> rank_timeout;
  std::vector<std::string> flags;  // --section.key=value
};

void write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Continues one prompt and writes the text as it is generated.
void generate_text(serve::Engine& engine, const text::Tokenizer& tokenizer,
                   const GenerateArguments& arguments) {
  const std::string& prompt = *arguments.prompt;
  text::StreamingDecoder decoder =
      arguments.file.decoder(tokenizer, /*after_prompt=*/!prompt.empty());
  serve::StopStrings stop(arguments.file.stop);
  std::string failure;
  serve::Request request = arguments.file.request;
  request.prompt = tokenizer.encode_prompt(prompt);
  if (request.prompt.empty()) {
    throw ConfigError("--prompt is empty: generation starts from at least one token");
  }
  const auto take = [&](const serve::GeneratedToken& token) {
    write(stop.push(decoder.push(token.token)));
    return !stop.found();
  };
  request.on_token = take;
  request.on_beams = [&](const std::vector<serve::BeamText>& beams) {
    for (const serve::GeneratedToken& token : beams.front().tokens) {
      if (!take(token)) break;
    }
  };
  request.ends_beam = serve::ends_beam_at(arguments.file.stop, tokenizer);
  request.on_finish = [&](serve::FinishReason reason, const serve::Usage&,
                          const std::string& error) {
    if (reason == serve::FinishReason::failed) failure = error;
  };
  engine.submit(std::move(request));
  engine.drain();
  if (!failure.empty()) throw Error(failure);
  write(stop.push(decoder.flush()) + stop.flush() + "\n");
}

void validate(const GenerateArguments& arguments) {
  const bool file = !arguments.file.input.empty() || !arguments.file.output.empty();
  if (arguments.prompt.has_value() + file + arguments.chat != 1) {
    throw ConfigError(
        "give --prompt for one text, --input and --output for a file of prompts, or --chat for a "
        "conversation");
  }
  if (file && (arguments.file.input.empty() || arguments.file.output.empty())) {
    throw ConfigError("--input and --output need each other: give both");
  }
  if (!file && arguments.file.request.logprobs >= 0) {
    throw ConfigError("--logprobs writes to the lines of --output: give --input and --output too");
  }
}

// Sets how texts are generated, as the model's folder and the flags say.
void set_generation(GenerateArguments& arguments, const text::ModelFolder& folder,
                    int64_t vocabulary) {
  constexpr int64_t kNewTokens = 100;  // if nothing is said
  const serve::GenerationSettings settings =
      resolve_generation(arguments.generation, folder, vocabulary);
  serve::set_generation(arguments.file.request, settings, kNewTokens);
  arguments.file.stop = settings.stop;
}

// Opens this rank's part of the model as the flags say.
std::unique_ptr<serve::InferenceModel> open_model(const GenerateArguments& arguments,
                                                  const models::ModelSpecification& specification,
                                                  const ModelRanksConfig& config,
                                                  InferenceRanks& ranks) {
  return open_model_over_ranks(
      specification, config,
      resolve_model_ranks(config.parallel, specification.facts, ranks.size()), ranks,
      resolve_weight_bits(arguments.quantize));
}

// Calls run(engine). If a rank was lost, throws that error instead of the errors of requests that
// the loss has caused.
void with_engine(const serve::InferenceModel& model, const models::ModelFacts& facts,
                 serve::EngineOptions options, const std::function<void(serve::Engine&)>& run) {
  std::string loss;
  options.on_lost = [&](const std::string& error) { loss = error; };
  try {
    serve::Engine engine(*model, facts, options, model.ranks());
    run(engine);
  } catch (const Error&) {
    if (loss.empty()) throw;
  }
  if (!loss.empty()) throw CommError(loss);
}

// Holds a conversation in the terminal until the user ends it.
void converse(GenerateArguments& arguments, InferenceRanks& ranks) {
  const auto config = parse_flags<ModelRanksConfig>(arguments.flags);
  const WeightBits bits = resolve_weight_bits(arguments.quantize);
  const serve::HeartbeatOptions heartbeat =
      resolve_rank_timeout(arguments.rank_timeout, config.parallel.timeout);
  validate(arguments);
  prepare(config, ranks);
  cluster::SignalQueue interrupts(std::array{SIGINT});  // before other threads start
  const ModelSource source(std::exchange(arguments.model, ""), config.compute);
  arguments.model = source.folder();
  const models::ModelSpecification specification =
      resolve_trained_model(arguments.model, "generate", arguments.adapter);
  require_decoder(specification, "generate");
  const models::ModelFacts& facts = specification.facts;
  const text::ModelFolder folder(arguments.model, arguments.adapter);
  set_generation(arguments, folder, facts.vocabulary);
  server::ServedModel served(folder, arguments.model, facts.positions, facts.vocabulary);
  const auto model = open_model(arguments, specification, config, ranks);
  if (!ranks.is_first()) return serve::follow(**model, facts, *model->ranks());
  const OpenedSpeculation draft =
      open_speculation(arguments.speculation, config, model->device(), bits);
  serve::EngineOptions options = engine_options(*model, config);
  options.heartbeat = heartbeat;
  options.max_num_seqs = arguments.file.request.beams.width;
  options.speculation = draft.speculation;
  options.int8_key_values = arguments.int8_key_values;
  with_engine(*model, facts, options, [&](serve::Engine& engine) {
    served.set_max_length(engine.options().max_model_len);
    chat(engine, served, interrupts, arguments.file);
    log_acceptance_rate(engine);
  });
}

void generate(GenerateArguments& arguments, InferenceRanks& ranks) {
  const auto config = parse_flags<ModelRanksConfig>(arguments.flags);
  const WeightBits bits = resolve_weight_bits(arguments.quantize);
  const serve::HeartbeatOptions heartbeat =
      resolve_rank_timeout(arguments.rank_timeout, config.parallel.timeout);
  validate(arguments);
  const int64_t prompts = arguments.prompt ? 1 : count_prompts(arguments.file.input);
  prepare(config, ranks);
  const ModelSource source(std::exchange(arguments.model, ""), config.compute);
  arguments.model = source.folder();
  const models::ModelSpecification specification =
      resolve_trained_model(arguments.model, "generate", arguments.adapter);
  require_decoder(specification, "generate");
  const text::ModelFolder folder(arguments.model, arguments.adapter);
  set_generation(arguments, folder, specification.facts.vocabulary);
  // Declared before the engine, whose thread uses these until the engine ends, even if a line of
  // the input is refused. With --prompt the tokenizer, else the model.
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::optional<server::ServedModel> served;
  if (arguments.prompt) {
    tokenizer = folder.tokenizer();
  } else {
    served.emplace(folder, arguments.model, specification.facts.positions,
                   specification.facts.vocabulary);
  }
  arguments.file.request.end_tokens = served ? served->end_tokens() : folder.end_tokens(*tokenizer);
  arguments.file.are_texts = specification.facts.encoder_layers > 0;
  const auto model = open_model(arguments, specification, config, ranks);
  const models::ModelFacts& facts = specification.facts;
  if (!ranks.is_first()) return serve::follow(**model, facts, *model->ranks());
  const OpenedSpeculation draft =
      open_speculation(arguments.speculation, config, model->device(), bits);
  serve::EngineOptions options = engine_options(*model, config);
  options.heartbeat = heartbeat;
  options.speculation = draft.speculation;
  options.int8_key_values = arguments.int8_key_values;
  const int64_t beams = std::max<int64_t>(1, arguments.file.request.beams.width);
  options.max_num_seqs = std::clamp(prompts * beams, beams, std::max(options.max_num_seqs, beams));
  with_engine(*model, facts, options, [&](serve::Engine& engine) {
    if (served) {
      served->set_max_length(engine.options().max_model_len);
      generate_file(engine, *served, arguments.file);
    } else {
      if (!arguments.file.are_texts) write(*arguments.prompt);
      generate_text(engine, *tokenizer, arguments);
    }
    log_acceptance_rate(engine);
  });
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a model");
  find_model_of(
      *command
           ->add_option("model", arguments->model,
                        "A Hugging Face folder, for example a checkpoint; the name of a model that "
                        "was downloaded from the Hub, such as Qwen/Qwen3-8B; or a GGUF file")
           ->required());
  command->add_option("--prompt", arguments->prompt, "The text to continue");
  command->add_flag("--chat", arguments->chat,
                    "Hold a conversation in the terminal, with the model's chat template. /reset "
                    "starts a new one, /exit ends, Ctrl-C stops an answer");
  GenerateFileArguments& file = arguments->file;
  command->add_option("--input", file.input,
                      "A JSONL file of prompts to continue in batches; each line is {\"prompt\": "
                      "\"...\"} or {\"messages\": [...]}");
  command->add_option(
      "--output", file.output,
      "The file to write: each line of --input with \"completion\", \"completion_tokens\" and "
      "\"finish_reason\" added. Line i uses the seed --seed + i");
  add_generation_options(*command, arguments->generation);
  command
      ->add_option("--seed", file.request.sampling.seed,
                   "Seed of the random number generator: the same seed gives the same text")
      ->capture_default_str();
  command->add_flag("--show-special-tokens", file.shows_special,
                    "Write special tokens such as <|im_end|> too, where the model generates them");
  command->add_option("--logprobs", file.request.logprobs,
                      "Also write the log-probability of each token, and of this many most likely "
                      "tokens, to --output");
  add_quantize(*command, arguments->quantize);
  add_speculation(*command, arguments->speculation);
  add_key_value_type(*command, arguments->int8_key_values);
  add_adapter_option(*command, arguments->adapter);
  command->allow_extras();
  command->footer(help_of_keys<ModelRanksConfig>);
  add_ranks_option(*command, arguments->ranks);
  add_rank_timeout(*command, arguments->rank_timeout);
  command->callback([arguments, command, &exit_code] {
    arguments->flags = command->remaining();
    InferenceRanks ranks(arguments->ranks);
    exit_code = ranks.guarded(
        [&] { arguments->chat ? converse(*arguments, ranks) : generate(*arguments, ranks); });
  });
}

}  // namespace colossal::cli
