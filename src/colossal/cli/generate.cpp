#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>

#include "colossal/base/log.h"
#include "colossal/base/units.h"
#include "colossal/cli/chat.h"
#include "colossal/cli/command.h"
#include "colossal/cli/generate_file.h"
#include "colossal/cli/generation_arguments.h"
#include "colossal/cli/inference_arguments.h"
#include "colossal/cli/key_flags.h"
#include "colossal/cli/model_source.h"
#include "colossal/cli/rank_timeout.h"
#include "colossal/cluster/stop_listener.h"
#include "colossal/io/folder_digest.h"
#include "colossal/models/labels.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/forward_pass.h"
#include "colossal/serve/stop_strings.h"
#include "colossal/text/model_folder.h"
#include "colossal/text/tokenizer/streaming_decoder.h"
#include "colossal/text/tokenizer/tokenizer.h"

namespace colossal::cli {
namespace {

constexpr int64_t kDefaultNewTokens = 100;  // without --chat

struct GenerateArguments {
  std::string model;
  std::string adapter;
  std::optional<std::string> prompt;
  bool chat = false;
  std::string system;  // the system message of a chat
  GenerationArguments generation;
  GenerateFileArguments file;  // its defaults.seed and shows_special are used by all
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

// How a text is generated.
struct Generation {
  serve::Request request;         // its options are used; the prompt and callbacks are not
  std::vector<std::string> stop;  // texts that end an answer; not part of it
};

// Continues one prompt and writes the prompt and the text as it is generated. is_answer: whether
// the text is one of its own, which the decoder of an encoder-decoder writes, instead of continuing
// the prompt: the prompt is left out.
void generate_text(serve::Engine& engine, const text::Tokenizer& tokenizer,
                   const GenerateArguments& arguments, const Generation& generation,
                   bool is_answer) {
  const std::string& prompt = *arguments.prompt;
  using Begins = text::StreamingDecoder::Begins;
  text::StreamingDecoder decoder(
      tokenizer, prompt.empty() || is_answer ? Begins::with_text : Begins::after_prompt,
      !arguments.file.defaults.shows_special);
  serve::StopStrings stop(generation.stop);
  std::string failure;
  serve::Request request = generation.request;
  request.prompt = tokenizer.encode_prompt(prompt);
  if (request.prompt.empty()) {
    throw ConfigError("--prompt is empty: generation starts from at least one token");
  }
  // The prompt comes with the first text, so that nothing is written if the engine refuses it.
  std::string before = is_answer ? "" : prompt;
  const auto show = [&](const std::string& text) { write(std::exchange(before, "") + text); };
  const auto take = [&](const serve::GeneratedToken& token) {
    show(stop.push(decoder.push(token.token)));
    return !stop.found();
  };
  request.on_token = take;
  request.on_beams = [&](const std::vector<serve::BeamText>& beams) {
    for (const serve::GeneratedToken& token : beams.front().tokens) {
      if (!take(token)) break;
    }
  };
  request.ends_beam = serve::ends_beam_at(generation.stop, tokenizer);
  request.on_finish = [&](serve::FinishReason reason, const serve::Usage&,
                          const std::string& error) {
    if (reason == serve::FinishReason::failed) failure = error;
  };
  engine.submit(std::move(request));
  engine.drain();
  if (!failure.empty()) throw Error(failure);
  show(stop.push(decoder.flush()) + stop.flush() + "\n");
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
  if (!file && arguments.file.defaults.logprobs >= 0) {
    throw ConfigError("--logprobs writes to the lines of --output: give --input and --output too");
  }
  if (!arguments.chat && !arguments.system.empty()) {
    throw ConfigError(
        "--system is for --chat; the \"messages\" of a file may begin with a system message");
  }
  if (!file && arguments.file.defaults.truncate) {
    throw ConfigError("--truncate is for the lines of --input: give --input and --output too");
  }
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

// Returns the text that --prompt names.
std::string read_prompt(const std::string& given) {
  if (given.starts_with("@@")) return given.substr(1);
  if (given != "-" && !given.starts_with('@')) return given;
  const std::string path = given == "-" ? "/dev/stdin" : given.substr(1);
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::error_code ignored;
  if (!file.is_open() || std::filesystem::is_directory(path, ignored)) {
    throw ConfigError(fmt::format(
        "--prompt={}: there is no file {}; a text that begins with @ is written --prompt=@{}",
        given, path, given));
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// What all ways to generate begin with.
struct Opening {
  ModelRanksConfig config;
  serve::WeightBits bits;
  serve::HeartbeatOptions heartbeat;
  std::unique_ptr<ModelSource> source;
  models::ModelSpecification specification;
  serve::GenerationSettings settings;

  text::ModelFolder folder(const GenerateArguments& arguments) const {
    return {arguments.model, arguments.adapter};
  }
  // otherwise: the most new tokens if neither the flags nor the folder say anything.
  Generation generation(const GenerateArguments& arguments, int64_t otherwise) const {
    Generation found{.request = {}, .stop = settings.stop};
    serve::set_generation(found.request, settings, otherwise);
    found.request.sampling.seed = arguments.file.defaults.seed;
    return found;
  }
};

// Checks the arguments and reads the model's folder, but not its weights.
Opening resolve(GenerateArguments& arguments, const InferenceRanks& ranks) {
  Opening opening{.config = parse_flags<ModelRanksConfig>(arguments.flags),
                  .bits = resolve_weight_bits(arguments.quantize),
                  .heartbeat = {},
                  .source = {},
                  .specification = {},
                  .settings = {}};
  opening.heartbeat = resolve_rank_timeout(arguments.rank_timeout, opening.config.parallel.timeout);
  validate(arguments);
  prepare(opening.config, ranks);
  opening.source =
      std::make_unique<ModelSource>(std::exchange(arguments.model, ""), opening.config.compute);
  arguments.model = opening.source->folder();
  opening.specification = resolve_trained_model(arguments.model, "generate", arguments.adapter);
  opening.settings = resolve_generation(arguments.generation, opening.folder(arguments),
                                        opening.specification.facts.vocabulary);
  return opening;
}

// Makes the engine, on the first rank, and calls run(engine). sequences: how many there will be.
void with_engine(const Opening& opening, const GenerateArguments& arguments,
                 const serve::InferenceModel& model, int64_t sequences,
                 const std::function<void(serve::Engine&)>& run) {
  const OpenedSpeculation draft =
      open_speculation(arguments.speculation, opening.config, model.device(), opening.bits);
  serve::EngineOptions options = engine_options(model, opening.config);
  options.heartbeat = opening.heartbeat;
  options.speculation = draft.speculation;
  options.int8_key_values = arguments.int8_key_values;
  const int64_t beams = std::max<int64_t>(1, opening.settings.beams.width);
  options.max_num_seqs = std::clamp(sequences, beams, std::max(options.max_num_seqs, beams));
  options.max_queue = std::max(options.max_queue, sequences);
  with_engine(model, opening.specification.facts, options, [&](serve::Engine& engine) {
    run(engine);
    log_acceptance_rate(engine);
  });
}

// Continues --prompt.
int complete(GenerateArguments& arguments, InferenceRanks& ranks) {
  const Opening opening = resolve(arguments, ranks);
  const models::ModelFacts& facts = opening.specification.facts;
  require_decoder(opening.specification, "generate");
  const text::ModelFolder folder = opening.folder(arguments);
  const auto tokenizer = folder.tokenizer();
  Generation generation = opening.generation(arguments, kDefaultNewTokens);
  generation.request.end_tokens = folder.end_tokens(*tokenizer);
  if (ranks.is_first()) arguments.prompt = read_prompt(*arguments.prompt);
  const auto model = open_model(arguments, opening.specification, opening.config, ranks);
  if (!ranks.is_first()) {
    serve::follow(**model, facts, *model->ranks());
    return kDone;
  }
  with_engine(opening, arguments, *model, 1, [&](serve::Engine& engine) {
    generate_text(engine, *tokenizer, arguments, generation,
                  /*is_answer=*/facts.encoder_layers > 0);
  });
  return kDone;
}

// Holds a conversation in the terminal until the user ends it.
int converse(GenerateArguments& arguments, InferenceRanks& ranks) {
  cluster::SignalQueue interrupts(std::array{SIGINT});  // before other threads start
  const Opening opening = resolve(arguments, ranks);
  const models::ModelFacts& facts = opening.specification.facts;
  require_decoder(opening.specification, "generate");
  server::ServedModel served(opening.folder(arguments), opening.source->name(), facts.positions,
                             facts.vocabulary);
  const auto model = open_model(arguments, opening.specification, opening.config, ranks);
  if (!ranks.is_first()) {
    serve::follow(**model, facts, *model->ranks());
    return kDone;
  }
  const Generation generation = opening.generation(arguments, facts.positions);
  with_engine(opening, arguments, *model, 1, [&](serve::Engine& engine) {
    served.set_max_length(engine.options().max_model_len);
    chat(engine, served, interrupts,
         {.request = generation.request,
          .stop = generation.stop,
          .system = arguments.system,
          .shows_special = arguments.file.defaults.shows_special});
  });
  return kDone;
}

// What the answers of --input depend on. The layout of the ranks is not part of it.
report::BatchSettings settings_of(const GenerateArguments& arguments, const Opening& opening) {
  report::BatchSettings settings;
  const auto add = [&](const char* name, const auto& value) {
    settings.emplace_back(name, fmt::format("{}", value));
  };
  add("the model", io::folder_digest(arguments.model).model);
  add("--adapter", arguments.adapter.empty() ? "" : io::folder_digest(arguments.adapter).model);
  add("--quantize", arguments.quantize.type);
  add("--quantize-group", arguments.quantize.group.value_or(-1));
  add("--precision.compute", opening.config.compute);
  add("--kv-type", arguments.int8_key_values ? "int8" : "auto");
  // Other settings are those of the model's folder or of --override-generation-config.
  const serve::GenerationSettings& generation = opening.settings;
  const serve::SamplingOptions& sampling = generation.sampling;
  add("--override-generation-config", arguments.generation.override_config);
  add("--temperature", sampling.temperature);
  add("--top-k", sampling.top_k);
  add("--top-p", sampling.top_p);
  add("--min-p", sampling.min_p);
  add("--typical-p", sampling.typical_p);
  add("--repetition-penalty", sampling.repetition_penalty);
  add("--presence-penalty", sampling.presence_penalty);
  add("--frequency-penalty", sampling.frequency_penalty);
  add("--min-tokens", sampling.min_tokens);
  add("--max-new-tokens", generation.max_new_tokens.value_or(-1));
  add("--stop", nlohmann::json(generation.stop).dump());
  add("--num-beams", generation.beams.width);
  add("--length-penalty", generation.beams.length_penalty);
  add("--early-stopping", static_cast<int>(generation.beams.early_stopping));
  const server::BatchDefaults& defaults = arguments.file.defaults;
  add("--seed", defaults.seed);
  add("--logprobs", defaults.logprobs);
  add("--truncate", defaults.truncate);
  add("--show-special-tokens", defaults.shows_special);
  return settings;
}

// Answers the lines of --input.
int answer_lines(GenerateArguments& arguments, InferenceRanks& ranks) {
  cluster::StopListener stop;  // before other threads start
  const Opening opening = resolve(arguments, ranks);
  const models::ModelFacts& facts = opening.specification.facts;
  // These outlive the engine, whose thread uses them until it ends.
  std::optional<server::ServedModel> served;
  std::optional<GenerateFile> file;
  const auto read_file = [&] {
    served.emplace(
        opening.folder(arguments), opening.source->name(), facts.positions, facts.vocabulary,
        facts.causal,
        facts.scores > 0 ? std::optional(models::labels_of(opening.specification)) : std::nullopt,
        opening.settings);
    served->set_decoder_prompt(std::ssize(facts.decoder_prompt));
    file.emplace(arguments.file, *served, settings_of(arguments, opening));
  };
  // Before the weights are read, if no other rank waits meanwhile.
  if (ranks.is_first() && !ranks.is_launched()) {
    read_file();
    if (file->is_whole()) {
      log::info("{}: nothing to do: all {} lines are complete", arguments.file.output,
                format_count(file->num_lines()));
      return kDone;
    }
  }
  const auto model = open_model(arguments, opening.specification, opening.config, ranks);
  stop.end_set_up("stopping; the lines that are complete are kept");
  if (!ranks.is_first()) {
    serve::follow(**model, facts, *model->ranks());
    return kDone;
  }
  if (!file) read_file();
  bool is_whole = false;
  with_engine(opening, arguments, *model, file->num_sequences(), [&](serve::Engine& engine) {
    served->set_max_length(engine.options().max_model_len);
    is_whole = file->run(engine, stop);
  });
  if (is_whole) return kDone;
  if (!file->can_continue()) {
    throw Error("stopped before the last line; --output is no file that could be continued");
  }
  log::info("{}", file->describe_stop());
  return kStopped;
}

void add_file_options(CLI::App& command, GenerateFileArguments& file) {
  command.add_option(
      "--input", file.input,
      "A jsonl file of prompts to answer in batches, or - for stdin; each line is {\"prompt\": "
      "\"...\"} or {\"messages\": [...]}, which may have fields of a request to the server, such "
      "as "
      "\"temperature\", \"max_tokens\" or \"tools\"; or a line of an OpenAI batch file");
  command.add_option(
      "--output", file.output,
      "The file to write, or - for stdout: each line of --input with \"completion\", "
      "\"completion_tokens\" and \"finish_reason\" added. Line i uses the seed --seed + i. After a "
      "stop, the same command goes on");
  command
      .add_option(
          "--invalid", file.invalid,
          "With --input: what happens if lines cannot be answered, for example because they "
          "are too long: error (nothing is generated) or skip (these lines get an "
          "\"error\")")
      ->capture_default_str();
  command.add_flag("--truncate", file.defaults.truncate,
                   "With --input: a prompt that is too long keeps its last tokens, so that "
                   "--max-new-tokens have room");
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
  command->add_option("--prompt", arguments->prompt,
                      "The text to continue. @FILE: the text of a file, -: of stdin, each without "
                      "the line break at its end; @@...: a text that begins with @");
  command->add_flag("--chat", arguments->chat,
                    "Hold a conversation in the terminal, with the model's chat template. /help "
                    "lists its commands, /exit ends, Ctrl-C stops an answer");
  command->add_option("--system", arguments->system, "With --chat: the system message");
  add_file_options(*command, arguments->file);
  add_generation_options(*command, arguments->generation);
  server::BatchDefaults& defaults = arguments->file.defaults;
  command
      ->add_option("--seed", defaults.seed,
                   "Seed of the random number generator: the same seed gives the same text")
      ->capture_default_str();
  command->add_flag("--show-special-tokens", defaults.shows_special,
                    "Write special tokens such as <|im_end|> too, where the model generates them");
  command->add_option("--logprobs", defaults.logprobs,
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
    arguments->flags = key_flags<ModelRanksConfig>(*command);
    InferenceRanks ranks(arguments->ranks);
    int code = kDone;
    exit_code = ranks.guarded([&] {
      try {
        code = arguments->chat     ? converse(*arguments, ranks)
               : arguments->prompt ? complete(*arguments, ranks)
                                   : answer_lines(*arguments, ranks);
      } catch (const cluster::StoppedInSetUp&) {
        code = kStopped;
      }
    });
    if (exit_code == kDone) exit_code = code;
  });
}

}  // namespace colossal::cli
