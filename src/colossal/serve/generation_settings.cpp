#include "colossal/serve/generation_settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/io/json.h"

namespace colossal::serve {
namespace {

using nlohmann::json;

constexpr double kMost = std::numeric_limits<double>::max();
constexpr int64_t kMostTokens = int64_t{1} << 40;

// One field of a generation_config.json.
class Field {
 public:
  Field(const std::string& source, const std::string& name, const json& value, int64_t vocabulary)
      : source_(source), name_(name), value_(value), vocabulary_(vocabulary) {}

  [[noreturn]] void refuse(const std::string& wanted) const {
    throw ConfigError(
        fmt::format("{}: {} = {}: must be {}", source_, name_, io::show_value(value_), wanted));
  }
  // open: whether `least` itself is refused.
  double number(double least, double most, bool open = false) const {
    const double found = value_.is_number() ? value_.get<double>() : std::nan("");
    if (found >= least && found <= most && !(open && found == least)) return found;
    refuse(most == kMost ? least == -kMost ? "a finite number"
                                           : fmt::format("a finite number {} {}",
                                                         open ? "above" : "of at least", least)
                         : fmt::format("a number {} {} and at most {}",
                                       open ? "above" : "of at least", least, most));
  }
  int64_t integer(int64_t least) const {
    const bool is_whole = value_.is_number_integer() ||
                          (value_.is_number() && std::trunc(value_.get<double>()) == value_);
    if (is_whole && value_ >= least && value_ <= kMostTokens) return value_.get<int64_t>();
    refuse(fmt::format("a whole number of at least {}", least));
  }
  bool boolean() const {
    if (!value_.is_boolean()) refuse("true or false");
    return value_.get<bool>();
  }
  int32_t token() const { return token_of(value_); }
  // A list of tokens, or a token alone.
  std::vector<int32_t> tokens() const {
    if (value_.is_number()) return {token()};
    return tokens_of(value_);
  }
  std::vector<std::vector<int32_t>> lists_of_tokens() const {
    if (!value_.is_array()) refuse("a list of lists of tokens");
    std::vector<std::vector<int32_t>> lists;
    for (const json& list : value_) lists.push_back(sequence_of(list));
    return lists;
  }
  std::vector<SequenceBias> biases() const {
    constexpr const char* kForm = "a list of pairs: a list of tokens, and a number";
    if (!value_.is_array()) refuse(kForm);
    std::vector<SequenceBias> biases;
    for (const json& pair : value_) {
      if (!pair.is_array() || pair.size() != 2 || !pair[1].is_number()) refuse(kForm);
      biases.push_back({sequence_of(pair[0]), pair[1].get<double>()});
    }
    return biases;
  }
  std::pair<int64_t, double> decay() const {
    const bool is_pair =
        value_.is_array() && value_.size() == 2 && value_[0].is_number() && value_[1].is_number();
    if (!is_pair || value_[0] < 0 || value_[1] <= 0) {
      refuse("a pair: after how many tokens it begins, and a factor above 0");
    }
    return {value_[0].get<int64_t>(), value_[1].get<double>()};
  }
  EarlyStopping early_stopping() const {
    if (value_ == "never") return EarlyStopping::never;
    if (!value_.is_boolean()) refuse("true, false or \"never\"");
    return value_ == true ? EarlyStopping::at_width : EarlyStopping::by_length;
  }
  std::vector<std::string> texts() const {
    if (value_.is_string()) return {value_.get<std::string>()};
    const bool is_list = value_.is_array() && std::ranges::all_of(value_, [](const json& text) {
                           return text.is_string();
                         });
    if (!is_list) refuse("a text or a list of texts");
    return value_.get<std::vector<std::string>>();
  }

 private:
  int32_t token_of(const json& value) const {
    if (value.is_number_integer() && value >= 0 && value < vocabulary_) return value.get<int32_t>();
    refuse(fmt::format("made of token numbers below {}, the number of the model's tokens",
                       vocabulary_));
  }
  std::vector<int32_t> tokens_of(const json& list) const {
    if (!list.is_array()) refuse("a list of tokens");
    std::vector<int32_t> tokens;
    for (const json& token : list) tokens.push_back(token_of(token));
    return tokens;
  }
  std::vector<int32_t> sequence_of(const json& list) const {
    const std::vector<int32_t> tokens = tokens_of(list);
    if (tokens.empty()) refuse("made of lists with at least one token");
    return tokens;
  }

  const std::string& source_;
  const std::string& name_;
  const json& value_;
  int64_t vocabulary_;
};

using Set = std::function<void(GenerationSettings&, const Field&)>;

// The fields that are obeyed, except do_sample.
const std::map<std::string, Set>& obeyed() {
  using Settings = GenerationSettings;
  static const std::map<std::string, Set> all{
      {"temperature",
       [](Settings& to, const Field& field) { to.sampling.temperature = field.number(0, kMost); }},
      {"top_k",
       [](Settings& to, const Field& field) {
         to.sampling.top_k = std::max<int64_t>(0, field.integer(-1));
       }},
      {"top_p",
       [](Settings& to, const Field& field) { to.sampling.top_p = field.number(0, 1, true); }},
      {"min_p", [](Settings& to, const Field& field) { to.sampling.min_p = field.number(0, 1); }},
      {"typical_p",
       [](Settings& to, const Field& field) { to.sampling.typical_p = field.number(0, 1, true); }},
      {"repetition_penalty",
       [](Settings& to, const Field& field) {
         to.sampling.repetition_penalty = field.number(0, kMost, true);
       }},
      {"encoder_repetition_penalty",
       [](Settings& to, const Field& field) {
         to.sampling.encoder_repetition_penalty = field.number(0, kMost, true);
       }},
      {"sequence_bias",
       [](Settings& to, const Field& field) { to.sampling.sequence_bias = field.biases(); }},
      {"no_repeat_ngram_size",
       [](Settings& to, const Field& field) {
         to.sampling.no_repeat_ngram_size = field.integer(0);
       }},
      {"encoder_no_repeat_ngram_size",
       [](Settings& to, const Field& field) {
         to.sampling.encoder_no_repeat_ngram_size = field.integer(0);
       }},
      {"bad_words_ids",
       [](Settings& to, const Field& field) { to.sampling.bad_words = field.lists_of_tokens(); }},
      {"suppress_tokens",
       [](Settings& to, const Field& field) { to.sampling.suppress_tokens = field.tokens(); }},
      {"begin_suppress_tokens",
       [](Settings& to, const Field& field) {
         to.sampling.begin_suppress_tokens = field.tokens();
       }},
      {"min_length",
       [](Settings& to, const Field& field) { to.sampling.min_length = field.integer(0); }},
      {"min_new_tokens",
       [](Settings& to, const Field& field) { to.sampling.min_tokens = field.integer(0); }},
      {"forced_bos_token_id",
       [](Settings& to, const Field& field) { to.sampling.forced_bos_token = field.token(); }},
      {"forced_eos_token_id",
       [](Settings& to, const Field& field) { to.sampling.forced_eos_tokens = field.tokens(); }},
      {"exponential_decay_length_penalty",
       [](Settings& to, const Field& field) {
         to.sampling.exponential_decay_length_penalty = field.decay();
       }},
      {"num_beams", [](Settings& to, const Field& field) { to.beams.width = field.integer(1); }},
      {"length_penalty",
       [](Settings& to, const Field& field) {
         to.beams.length_penalty = field.number(-kMost, kMost);
       }},
      {"early_stopping",
       [](Settings& to, const Field& field) { to.beams.early_stopping = field.early_stopping(); }},
      {"max_new_tokens",
       [](Settings& to, const Field& field) { to.max_new_tokens = field.integer(1); }},
      {"max_length", [](Settings& to, const Field& field) { to.max_length = field.integer(1); }},
      {"stop_strings", [](Settings& to, const Field& field) { to.stop = field.texts(); }}};
  return all;
}

// Fields that are not supported, with the values that change no text, besides null.
const std::map<std::string, json>& unsupported() {
  static const std::map<std::string, json> all{{"guidance_scale", {1}},
                                               {"num_return_sequences", {1}},
                                               {"num_beam_groups", {1}},
                                               {"diversity_penalty", {0}},
                                               {"penalty_alpha", {0}},
                                               {"epsilon_cutoff", {0}},
                                               {"eta_cutoff", {0}},
                                               {"renormalize_logits", {false}},
                                               {"token_healing", {false}},
                                               {"top_h", json::array()},
                                               {"max_time", json::array()},
                                               {"constraints", json::array()},
                                               {"force_words_ids", json::array()},
                                               {"dola_layers", json::array()},
                                               {"watermarking_config", json::array()}};
  return all;
}

}  // namespace

std::vector<std::string> apply_generation_config(GenerationSettings& settings, const json& fields,
                                                 int64_t vocabulary, const std::string& source) {
  if (fields.is_null()) return {};
  if (!fields.is_object()) throw ConfigError(fmt::format("{}: is not a JSON object", source));
  std::vector<std::string> left;
  for (const auto& [name, value] : fields.items()) {
    if (value.is_null()) continue;
    if (const auto set = obeyed().find(name); set != obeyed().end()) {
      set->second(settings, Field(source, name, value, vocabulary));
    }
    const auto found = unsupported().find(name);
    if (found != unsupported().end() && !std::ranges::count(found->second, value)) {
      left.push_back(fmt::format("{} = {}", name, io::show_value(value)));
    }
  }
  bool samples = false;
  if (const auto found = fields.find("do_sample"); found != fields.end() && !found->is_null()) {
    samples = Field(source, found.key(), *found, vocabulary).boolean();
    double& temperature = settings.sampling.temperature;
    if (!samples) temperature = 0;
    if (samples && temperature == 0 && !fields.contains("temperature")) temperature = 1;
  }
  if (settings.beams.width > 1 && samples) {
    left.push_back(fmt::format("num_beams = {} with do_sample = true", settings.beams.width));
    settings.beams = {};
  }
  if (settings.beams.width > 1) use_beams(settings, settings.beams.width);
  return left;
}

GenerationSettings read_generation_settings(const text::ModelFolder& folder, int64_t vocabulary,
                                            const json& changed) {
  const auto [file, fields] = folder.generation_config();
  json merged = fields.is_null() ? json::object() : fields;
  for (const auto& [name, value] : changed.items()) merged.erase(name);
  GenerationSettings settings;
  std::vector<std::string> left =
      apply_generation_config(settings, merged, vocabulary, file.string());
  for (const std::string& field :
       apply_generation_config(settings, changed, vocabulary, "--override-generation-config")) {
    left.push_back(field);
  }
  if (const std::string found = describe(settings); !found.empty()) {
    log::info("{}: {}", changed.empty() ? file.string() : "settings of generation", found);
  }
  if (!left.empty()) {
    log::info("{}: not supported, and ignored: {}", file.string(), fmt::join(left, ", "));
  }
  return settings;
}

void use_beams(GenerationSettings& settings, int64_t width) {
  const SamplingOptions none;
  settings.beams.width = width;
  settings.sampling.temperature = 0;
  settings.sampling.top_k = none.top_k;
  settings.sampling.top_p = none.top_p;
  settings.sampling.min_p = none.min_p;
  settings.sampling.typical_p = none.typical_p;
}

void set_generation(Request& request, const GenerationSettings& settings, int64_t otherwise) {
  const uint64_t seed = request.sampling.seed;
  request.sampling = settings.sampling;
  request.sampling.seed = seed;
  request.beams = settings.beams;
  const bool by_length = settings.max_length && !settings.max_new_tokens;
  request.max_length = by_length ? *settings.max_length : 0;
  request.max_new_tokens = settings.max_new_tokens.value_or(by_length ? kMostTokens : otherwise);
}

std::string describe(const GenerationSettings& settings) {
  const SamplingOptions& sampling = settings.sampling;
  const SamplingOptions none;
  const BeamSearchOptions no_beams;
  std::vector<std::string> parts;
  const auto add = [&](const char* name, const auto& value, const auto& otherwise) {
    if (value != otherwise) parts.push_back(fmt::format("{} = {}", name, value));
  };
  const auto count = [&](const char* name, size_t number) {
    if (number > 0) parts.push_back(fmt::format("{} ({})", name, number));
  };
  add("temperature", sampling.temperature, none.temperature);
  add("top_k", sampling.top_k, none.top_k);
  add("top_p", sampling.top_p, none.top_p);
  add("min_p", sampling.min_p, none.min_p);
  add("typical_p", sampling.typical_p, none.typical_p);
  add("repetition_penalty", sampling.repetition_penalty, none.repetition_penalty);
  add("encoder_repetition_penalty", sampling.encoder_repetition_penalty,
      none.encoder_repetition_penalty);
  add("no_repeat_ngram_size", sampling.no_repeat_ngram_size, none.no_repeat_ngram_size);
  add("encoder_no_repeat_ngram_size", sampling.encoder_no_repeat_ngram_size,
      none.encoder_no_repeat_ngram_size);
  count("sequence_bias", sampling.sequence_bias.size());
  count("bad_words_ids", sampling.bad_words.size());
  count("suppress_tokens", sampling.suppress_tokens.size());
  count("begin_suppress_tokens", sampling.begin_suppress_tokens.size());
  add("min_length", sampling.min_length, none.min_length);
  add("min_new_tokens", sampling.min_tokens, none.min_tokens);
  add("forced_bos_token_id", sampling.forced_bos_token.value_or(-1), -1);
  count("forced_eos_token_id", sampling.forced_eos_tokens.size());
  if (const auto& decay = sampling.exponential_decay_length_penalty) {
    parts.push_back(
        fmt::format("exponential_decay_length_penalty = [{}, {}]", decay->first, decay->second));
  }
  add("num_beams", settings.beams.width, no_beams.width);
  if (settings.beams.width > 1) {
    add("length_penalty", settings.beams.length_penalty, no_beams.length_penalty);
  }
  add("max_new_tokens", settings.max_new_tokens.value_or(0), 0);
  add("max_length", settings.max_length.value_or(0), 0);
  count("stop_strings", settings.stop.size());
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace colossal::serve
