#include "colossal/cli/generation_arguments.h"

#include <map>
#include <nlohmann/json.hpp>

#include "colossal/base/error.h"
#include "colossal/io/json.h"

namespace colossal::cli {
namespace {

using serve::GenerationSettings;

constexpr const char* kOverride = "--override-generation-config";

// Adds an option that sets a value of the settings. member: returns a reference to the value.
template <typename Value, typename Member>
CLI::Option* add_change(CLI::App& command, GenerationArguments& arguments, const std::string& flag,
                        const Member& member, const std::string& help) {
  return command.add_option_function<Value>(
      flag,
      [&arguments, member](const Value& value) {
        arguments.changes.push_back(
            [member, value](GenerationSettings& settings) { member(settings) = value; });
      },
      help);
}

// The options of which each makes the text sampled, where the folder says otherwise.
void add_sampling(CLI::App& command, GenerationArguments& arguments) {
  const auto add = [&]<typename Value>(const char* flag, Value serve::SamplingOptions::*member,
                                       const char* help) {
    command.add_option_function<Value>(
        flag,
        [&arguments, member](const Value& value) {
          if (value > 0) arguments.samples = true;
          arguments.changes.push_back(
              [member, value](GenerationSettings& settings) { settings.sampling.*member = value; });
        },
        help);
  };
  using Options = serve::SamplingOptions;
  add("--temperature", &Options::temperature,
      "Sampling temperature; 0 always takes the most likely token (greedy) [the model's, else 1]");
  add("--top-k", &Options::top_k,
      "Sample from the k most likely tokens only; 0: from all tokens [the model's, else 0]");
  add("--top-p", &Options::top_p,
      "Sample from the smallest set of most likely tokens whose probabilities sum to at least p "
      "(nucleus sampling); 1: from all tokens [the model's, else 1]");
  add("--min-p", &Options::min_p,
      "Sample only from tokens at least p times as likely as the most likely one; 0: from all "
      "tokens [the model's, else 0]");
  add("--typical-p", &Options::typical_p,
      "Typical sampling: sample from the tokens whose information content is closest to the "
      "expected one, until their probabilities sum to p; 1: from all tokens [the model's, else 1]");
}

void add_penalties(CLI::App& command, GenerationArguments& arguments) {
  const auto add = [&](const char* flag, auto member, const char* help) {
    using Value = std::remove_reference_t<decltype(serve::SamplingOptions().*member)>;
    add_change<Value>(
        command, arguments, flag,
        [member](GenerationSettings& settings) -> Value& { return settings.sampling.*member; },
        help);
  };
  using Options = serve::SamplingOptions;
  add("--repetition-penalty", &Options::repetition_penalty,
      "Above 1: makes tokens that occur in the prompt or the answer less likely; 1: no penalty "
      "[the model's, else 1]");
  add("--presence-penalty", &Options::presence_penalty,
      "Above 0: makes tokens that were already generated less likely; 0: no penalty [0]");
  add("--frequency-penalty", &Options::frequency_penalty,
      "Above 0: makes a token less likely each time it is generated; 0: no penalty [0]");
  add("--no-repeat-ngram-size", &Options::no_repeat_ngram_size,
      "Let no sequence of this many tokens occur twice; 0: any may [the model's, else 0]");
  add("--min-tokens", &Options::min_tokens,
      "Generate at least this many tokens before the text may end [the model's, else 0]");
}

void add_beams(CLI::App& command, GenerationArguments& arguments) {
  using serve::EarlyStopping;
  command.add_option("--num-beams", arguments.num_beams,
                     "Beam search: keep this many candidate texts at each step and return the best "
                     "one. 1: no beam search [the model's, else 1]");
  add_change<double>(
      command, arguments, "--length-penalty",
      [](GenerationSettings& settings) -> double& { return settings.beams.length_penalty; },
      "With beam search: a text's score is the sum of its log-probabilities divided by its length "
      "in tokens to this power. Above 1 favours longer texts, below 0 shorter ones [the model's, "
      "else 1]");
  add_change<EarlyStopping>(
      command, arguments, "--early-stopping",
      [](GenerationSettings& settings) -> EarlyStopping& { return settings.beams.early_stopping; },
      "With beam search: when to stop. true: once num-beams texts are complete. false: once no "
      "candidate, at its current length, scores better than the complete ones. never: once none "
      "can become better, even at the maximum length [the model's, else false]")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, EarlyStopping>{{"false", EarlyStopping::by_length},
                                               {"true", EarlyStopping::at_width},
                                               {"never", EarlyStopping::never}}));
}

}  // namespace

void add_override_option(CLI::App& command, GenerationArguments& arguments) {
  command
      .add_option(kOverride, arguments.override_config,
                  "Fields that take the place of those of the model's generation_config.json, as a "
                  "JSON object: {\"suppress_tokens\": [5]}. null: as if the model did not have it")
      ->type_name("JSON");
}

void add_generation_options(CLI::App& command, GenerationArguments& arguments) {
  add_change<int64_t>(
      command, arguments, "--max-new-tokens",
      [](GenerationSettings& settings) -> std::optional<int64_t>& {
        return settings.max_new_tokens;
      },
      "The maximum number of tokens to generate [the model's, else 100; with --chat: as many as "
      "there is room for]");
  add_sampling(command, arguments);
  add_penalties(command, arguments);
  add_change<std::vector<std::string>>(
      command, arguments, "--stop",
      [](GenerationSettings& settings) -> std::vector<std::string>& { return settings.stop; },
      "Stop before this string; may be given several times")
      ->allow_extra_args(false);
  add_beams(command, arguments);
  add_override_option(command, arguments);
}

GenerationSettings resolve_generation(const GenerationArguments& arguments,
                                      const text::ModelFolder& folder, int64_t vocabulary) {
  nlohmann::json changed = nlohmann::json::object();
  if (!arguments.override_config.empty()) {
    changed = io::parse_json(arguments.override_config, kOverride);
    if (!changed.is_object()) {
      throw ConfigError(fmt::format("{}={}: must be a JSON object, such as {{\"top_k\": 20}}",
                                    kOverride, arguments.override_config));
    }
  }
  GenerationSettings settings = serve::read_generation_settings(folder, vocabulary, changed);
  const bool names_beams = arguments.num_beams != 0;
  if (arguments.samples && !names_beams) settings.beams.width = 1;
  if (arguments.num_beams > 1) serve::use_beams(settings, arguments.num_beams);
  if (names_beams && arguments.num_beams <= 1) settings.beams.width = arguments.num_beams;
  for (const auto& change : arguments.changes) change(settings);
  if (settings.max_new_tokens.value_or(1) < 1) {
    throw ConfigError(
        fmt::format("--max-new-tokens={}: must be 1 or more", *settings.max_new_tokens));
  }
  return settings;
}

}  // namespace colossal::cli
