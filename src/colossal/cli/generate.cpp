#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "colossal/cli/chat.h"
#include "colossal/cli/command.h"
#include "colossal/cli/generate_file.h"
#include "colossal/cli/inference_arguments.h"
#include "colossal/cli/model_source.h"
#include "colossal/cli/rank_timeout.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/forward_pass.h"
#include "colossal/serve/model_folder.h"
#include "colossal/serve/stop_strings.h"
#include "colossal/text/streaming_decoder.h"
#include "colossal/text/tokenizer.h"

namespace colossal::cli {
namespace {

struct GenerateArguments {
  std::string model;
  std::string adapter;
  std::optional<std::string> prompt;
  bool chat = false;
  GenerateFileArguments file;  // its request is used with --prompt and --chat too
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
      prompt.empty() ? text::StreamingDecoder(tokenizer) : arguments.file.decoder(tokenizer);
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
  const bool beams = arguments.file.request.beams.width != 1;
  if (beams && arguments.chat) {
    throw ConfigError(
        "--num-beams with --chat: beam search knows its text only at the end, so a chat could not "
        "show it token by token; use --prompt or --input, or leave --num-beams out");
  }
  if (arguments.file.request.max_new_tokens < 1) {
    throw ConfigError(fmt::format("--max-new-tokens={}: must be 1 or more",
                                  arguments.file.request.max_new_tokens));
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
  server::ServedModel served(arguments.model, arguments.model, facts.positions, facts.vocabulary);
  const auto model = open_model(arguments, specification, config, ranks);
  if (!ranks.is_first()) return serve::follow(**model, facts, *model->ranks());
  const OpenedSpeculation draft =
      open_speculation(arguments.speculation, config, model->device(), bits);
  serve::EngineOptions options = engine_options(*model, config);
  options.heartbeat = heartbeat;
  options.max_num_seqs = 1;
  options.speculation = draft.speculation;
  options.int8_key_values = arguments.int8_key_values;
  with_engine(*model, facts, options, [&](serve::Engine& engine) {
    served.set_max_length(engine.options().max_model_len);
    chat(engine, served, interrupts, arguments.file.request);
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
  const auto tokenizer = text::make_tokenizer(tokenizer_folder(arguments.model, arguments.adapter));
  arguments.file.request.end_tokens = serve::end_tokens(arguments.model, *tokenizer);
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
  // Declared before the engine, whose thread uses this until the engine ends, even if a line of the
  // input is refused.
  std::optional<server::ServedModel> served;
  if (!arguments.prompt) {
    served.emplace(arguments.model, arguments.model, facts.positions, facts.vocabulary);
  }
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

void add_sampling_options(CLI::App& command, serve::SamplingOptions& sampling) {
  const auto add = [&](const char* flag, auto& value, const char* help) {
    command.add_option(flag, value, help)->capture_default_str();
  };
  add("--temperature", sampling.temperature,
      "Sampling temperature; 0 always takes the most likely token (greedy)");
  add("--top-k", sampling.top_k, "Sample from the k most likely tokens only; 0: from all tokens");
  add("--top-p", sampling.top_p,
      "Sample from the smallest set of most likely tokens whose probabilities sum to at least p "
      "(nucleus sampling); 1: from all tokens");
  add("--min-p", sampling.min_p,
      "Sample only from tokens at least p times as likely as the most likely one; 0: from all "
      "tokens");
  add("--typical-p", sampling.typical_p,
      "Typical sampling: sample from the tokens whose information content is closest to the "
      "expected one, until their probabilities sum to p; 1: from all tokens");
  add("--repetition-penalty", sampling.repetition_penalty,
      "Above 1: makes tokens that occur in the prompt or the answer less likely; 1: no penalty");
  add("--presence-penalty", sampling.presence_penalty,
      "Above 0: makes tokens that were already generated less likely; 0: no penalty");
  add("--frequency-penalty", sampling.frequency_penalty,
      "Above 0: makes a token less likely each time it is generated; 0: no penalty");
  add("--min-tokens", sampling.min_tokens,
      "Generate at least this many tokens before the text may end");
  add("--seed", sampling.seed,
      "Seed of the random number generator: the same seed gives the same text");
}

void add_beam_options(CLI::App& command, serve::BeamSearchOptions& beams) {
  using serve::EarlyStopping;
  command
      .add_option("--num-beams", beams.width,
                  "Beam search: keep this many candidate texts at each step and return the best "
                  "one. 1: no beam search")
      ->capture_default_str();
  command
      .add_option(
          "--length-penalty", beams.length_penalty,
          "With beam search: a text's score is the sum of its log-probabilities divided by its "
          "length in tokens to this power. Above 1 favours longer texts, below 0 shorter ones")
      ->capture_default_str();
  command
      .add_option("--early-stopping", beams.early_stopping,
                  "With beam search: when to stop. true: once num-beams texts are complete. false: "
                  "once no candidate, at its current length, scores better than the complete ones. "
                  "never: once none can become better, even at the maximum length")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, EarlyStopping>{{"false", EarlyStopping::by_length},
                                               {"true", EarlyStopping::at_width},
                                               {"never", EarlyStopping::never}}))
      ->default_str("false");
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
  file.request.max_new_tokens = 100;
  command
      ->add_option("--max-new-tokens", file.request.max_new_tokens,
                   "The maximum number of tokens to generate")
      ->capture_default_str();
  add_sampling_options(*command, file.request.sampling);
  command->add_option("--stop", file.stop, "Stop before this string; may be given several times")
      ->allow_extra_args(false);
  command->add_option("--logprobs", file.request.logprobs,
                      "Also write the log-probability of each token, and of this many most likely "
                      "tokens, to --output");
  add_beam_options(*command, file.request.beams);
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
