#include "colossal/server/generation_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <random>

namespace colossal::server {
namespace {

constexpr int64_t kMaxAnswers = 16;   // per prompt
constexpr size_t kMaxPrompts = 1024;  // per request
constexpr int64_t kMaxLogprobs = 20;
constexpr size_t kMaxStops = 16, kMaxStopBytes = 256;
constexpr size_t kMaxBiases = 1024;
constexpr int64_t kMaxCount = int64_t{1} << 40;  // for integers without a limit of their own

constexpr std::string_view kLater = "is not supported; leave it out";

int32_t token_of_key(const std::string& key, const ServedModel& model) {
  int32_t token = -1;
  const auto end = std::from_chars(key.data(), key.data() + key.size(), token);
  if (end.ptr != key.data() + key.size() || token < 0 || token >= model.vocabulary()) {
    throw ApiError(400, fmt::format("logit_bias: {:?} is not a token of the model", key),
                   "logit_bias");
  }
  return token;
}

void read_logit_bias(Fields& fields, const ServedModel& model, serve::SamplingOptions& sampling) {
  const Json* biases = fields.find("logit_bias");
  if (!biases) return;
  if (!biases->is_object())
    refuse_type("logit_bias", "an object of token numbers and biases", *biases);
  if (biases->size() > kMaxBiases) {
    throw ApiError(400, fmt::format("logit_bias has more than {} entries", kMaxBiases),
                   "logit_bias");
  }
  for (const auto& [key, value] : biases->items()) {
    if (!value.is_number() || value < -100 || value > 100) {
      refuse_type("logit_bias", "numbers from -100 to 100", *biases);
    }
    sampling.logit_bias.emplace_back(token_of_key(key, model), value.get<double>());
  }
}

void check_tokens(const std::vector<int32_t>& tokens, const ServedModel& model,
                  const std::string& field) {
  for (const int32_t token : tokens) {
    if (token >= model.vocabulary()) {
      throw ApiError(400,
                     fmt::format("{}: token {} is outside the model's vocabulary of {}", field,
                                 token, model.vocabulary()),
                     field);
    }
  }
}

void read_bad_words(Fields& fields, const ServedModel& model, serve::SamplingOptions& sampling) {
  for (const std::string& word : fields.strings("bad_words")) {
    const std::vector<int32_t> tokens = model.encode(word, /*add_special_tokens=*/false);
    if (!tokens.empty()) sampling.bad_words.push_back(tokens);
  }
}

// Reads the fields of generation_config.json that have no other name in the API.
void read_generation_fields(Fields& fields, const ServedModel& model,
                            serve::GenerationSettings& settings) {
  constexpr const char* kNames[] = {"encoder_repetition_penalty",
                                    "sequence_bias",
                                    "no_repeat_ngram_size",
                                    "encoder_no_repeat_ngram_size",
                                    "bad_words_ids",
                                    "suppress_tokens",
                                    "begin_suppress_tokens",
                                    "min_length",
                                    "forced_bos_token_id",
                                    "forced_eos_token_id",
                                    "exponential_decay_length_penalty"};
  for (const char* name : kNames) {
    const Json* value = fields.find(name);
    if (!value) continue;
    try {
      serve::apply_generation_config(settings, {{name, *value}}, model.vocabulary(), "the request");
    } catch (const ConfigError& error) {
      throw ApiError(400, error.what(), name);
    }
  }
}

void read_sampling(Fields& fields, const ServedModel& model, GenerationRequest& request) {
  serve::GenerationSettings settings = model.generation();
  read_generation_fields(fields, model, settings);
  request.beams = settings.beams;
  serve::SamplingOptions& sampling = request.sampling = settings.sampling;
  sampling.temperature = fields.number("temperature", 0, 100).value_or(sampling.temperature);
  const auto top_k = fields.integer("top_k", -1, INT32_MAX);
  if (top_k) sampling.top_k = std::max<int64_t>(*top_k, 0);
  sampling.top_p = fields.number("top_p", 1e-9, 1).value_or(sampling.top_p);
  sampling.min_p = fields.number("min_p", 0, 1).value_or(sampling.min_p);
  sampling.typical_p = fields.number("typical_p", 1e-9, 1).value_or(sampling.typical_p);
  sampling.repetition_penalty =
      fields.number("repetition_penalty", 1e-3, 1e3).value_or(sampling.repetition_penalty);
  sampling.presence_penalty =
      fields.number("presence_penalty", -2, 2).value_or(sampling.presence_penalty);
  sampling.frequency_penalty =
      fields.number("frequency_penalty", -2, 2).value_or(sampling.frequency_penalty);
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  request.has_seed = seed.has_value();
  sampling.seed = seed ? static_cast<uint64_t>(*seed)
                       : (uint64_t{std::random_device()()} << 32 | std::random_device()());
  read_logit_bias(fields, model, sampling);
  sampling.allowed_tokens = fields.tokens("allowed_token_ids");
  if (sampling.allowed_tokens.empty() && fields.find("allowed_token_ids")) {
    throw ApiError(400,
                   "allowed_token_ids: an empty list allows no token; leave it out to allow all",
                   "allowed_token_ids");
  }
  check_tokens(sampling.allowed_tokens, model, "allowed_token_ids");
  read_bad_words(fields, model, sampling);
  sampling.min_tokens = fields.integer("min_tokens", 0, kMaxCount).value_or(sampling.min_tokens);
}

void read_stops(Fields& fields, const ServedModel& model, GenerationRequest& request) {
  request.stop = fields.find("stop") ? fields.strings("stop") : model.generation().stop;
  // A special token is not part of the answer's text, so it ends the answer as a token.
  for (const std::string& stop : request.stop) {
    if (const auto token = model.special_token(stop)) request.end_tokens.push_back(*token);
  }
  const bool too_long = std::ranges::any_of(
      request.stop, [](const std::string& stop) { return stop.size() > kMaxStopBytes; });
  if (request.stop.size() > kMaxStops || too_long) {
    throw ApiError(
        400, fmt::format("stop: must be at most {} strings of {} bytes", kMaxStops, kMaxStopBytes),
        "stop");
  }
  if (std::ranges::find(request.stop, "") != request.stop.end()) {
    throw ApiError(400, "stop: an empty text would end every answer; leave it out", "stop");
  }
  request.include_stop = fields.boolean("include_stop_str_in_output", false);
  request.skip_special_tokens = fields.boolean("skip_special_tokens", true);
  if (!fields.boolean("ignore_eos", false)) {
    const std::vector<int32_t>& ends = request.form ? request.form->end_tokens : model.end_tokens();
    request.end_tokens.insert(request.end_tokens.end(), ends.begin(), ends.end());
  }
  const std::vector<int32_t> more = fields.tokens("stop_token_ids");
  check_tokens(more, model, "stop_token_ids");
  request.end_tokens.insert(request.end_tokens.end(), more.begin(), more.end());
}

void read_stream(Fields& fields, GenerationRequest& request) {
  request.stream = fields.boolean("stream", false);
  const Json* options = fields.find("stream_options");
  if (!options) return;
  if (!options->is_object()) refuse_type("stream_options", "an object", *options);
  if (!request.stream) {
    throw ApiError(400, "stream_options need \"stream\": true", "stream_options");
  }
  Fields inner(*options);
  request.include_usage = inner.boolean("include_usage", false);
  request.continuous_usage = inner.boolean("continuous_usage_stats", false);
  inner.ignore("include_obfuscation");
}

// Refuses values, of known fields, that ask for something unsupported.
void refuse_unsupported(Fields& fields) {
  fields.refuse_unless("spaces_between_special_tokens", true, kLater);
}

TextRule schema_rule(const Json& schema, const char* field) {
  if (schema.is_object() || schema.is_boolean()) return {TextRule::Kind::json_schema, schema};
  // vLLM takes the schema as text, too.
  if (schema.is_string()) {
    const auto parsed = parse_text(schema.get<std::string>());
    if (parsed && parsed->is_object()) return {TextRule::Kind::json_schema, *parsed};
  }
  refuse_type(field, "a JSON schema", schema);
}

TextRule text_rule(TextRule::Kind kind, const Json& text, const char* field) {
  if (!text.is_string()) refuse_type(field, "a string", text);
  return {kind, text};
}

TextRule choice_rule(const Json& texts, const char* field) {
  const bool are_texts =
      texts.is_array() && !texts.empty() &&
      std::ranges::all_of(texts, [](const Json& text) { return text.is_string(); });
  if (!are_texts) refuse_type(field, "a list of strings, at least one", texts);
  return {TextRule::Kind::choice, texts};
}

std::optional<TextRule> object_rule(const Json& asked, const char* field) {
  if (!asked.is_boolean()) refuse_type(field, "true or false", asked);
  if (!asked.get<bool>()) return std::nullopt;
  return TextRule{TextRule::Kind::json_object, nullptr};
}

// Reads {"type": "text"}, {"type": "json_object"}, which may have a schema, or {"type":
// "json_schema", "json_schema": {"schema": ...}}.
std::optional<TextRule> read_response_format(Fields& fields) {
  const Json* format = fields.find("response_format");
  if (!format) return {};
  const Json type = format->is_object() ? format->value("type", Json()) : Json();
  if (type == "text") return {};
  if (type == "json_object") {
    const Json schema = format->value("schema", Json());
    if (!schema.is_null()) return schema_rule(schema, "response_format");
    return TextRule{TextRule::Kind::json_object, nullptr};
  }
  const Json schema = format->is_object() ? format->value("json_schema", Json()) : Json();
  if (type != "json_schema" || !schema.is_object() || !schema.contains("schema")) {
    refuse_type("response_format",
                "{\"type\": \"text\"}, {\"type\": \"json_object\"} or {\"type\": "
                "\"json_schema\", \"json_schema\": {\"schema\": ...}}",
                *format);
  }
  return schema_rule(schema["schema"], "response_format");
}

// What a constraint is, by its names in structured_outputs and, with "guided_", in older requests.
enum class Guide { json, regex, choice, grammar, json_object };
constexpr std::array<std::pair<const char*, Guide>, 5> kGuides{
    {{"json", Guide::json},
     {"regex", Guide::regex},
     {"choice", Guide::choice},
     {"grammar", Guide::grammar},
     {"json_object", Guide::json_object}}};
constexpr std::array<std::pair<const char*, Guide>, 5> kGuidedFields{
    {{"guided_json", Guide::json},
     {"guided_regex", Guide::regex},
     {"guided_choice", Guide::choice},
     {"guided_grammar", Guide::grammar},
     {"guided_json_object", Guide::json_object}}};

std::optional<TextRule> guided(const Json& value, const char* field, Guide guide) {
  switch (guide) {
    case Guide::json:
      return schema_rule(value, field);
    case Guide::regex:
      return text_rule(TextRule::Kind::regular_expression, value, field);
    case Guide::choice:
      return choice_rule(value, field);
    case Guide::grammar:
      return text_rule(TextRule::Kind::grammar, value, field);
    case Guide::json_object:
      return object_rule(value, field);
  }
  return std::nullopt;
}

std::optional<TextRule> read_guided(Fields& fields, const char* field, Guide guide) {
  const Json* value = fields.find(field);
  return value ? guided(*value, field, guide) : std::nullopt;
}

// Reads one of kGuides.
std::optional<TextRule> read_structured_outputs(Fields& fields) {
  constexpr const char* kField = "structured_outputs";
  const Json* outputs = fields.find(kField);
  if (!outputs) return {};
  constexpr std::string_view kForms =
      "one of {\"json\": schema}, {\"regex\": text}, {\"choice\": texts}, {\"grammar\": GBNF}, "
      "{\"json_object\": true}";
  if (!outputs->is_object()) refuse_type(kField, kForms, *outputs);
  Fields inner(*outputs);
  std::optional<TextRule> rule;
  int count = 0;
  for (const auto& [name, guide] : kGuides) {
    const Json* value = inner.find(name);
    if (!value) continue;
    ++count;
    rule = guided(*value, kField, guide);
  }
  // These change white space and back ends only.
  for (const char* name : {"disable_fallback", "disable_any_whitespace", "_backend"}) {
    inner.ignore(name);
  }
  inner.refuse_unless("whitespace_pattern", nullptr, "is not supported; leave it out");
  inner.refuse_unless("disable_additional_properties", false,
                      "is not supported: write \"additionalProperties\": false in the schema");
  if (count != 1 || !inner.unknown().empty()) refuse_type(kField, kForms, *outputs);
  return rule;
}

// Refuses the fields with which other servers take constraints: an answer that a client believes
// constrained must be so.
void refuse_other_constraints(Fields& fields) {
  constexpr const char* kInstead =
      "is not supported; give response_format, or structured_outputs with json, regex, choice or "
      "grammar";
  for (const char* name : {"format", "json_schema", "regex", "ebnf", "grammar", "structural_tag",
                           "guided_whitespace_pattern", "guided_options_request", "text_format",
                           "output_format", "logits_processors", "custom_logit_processor"}) {
    fields.refuse_unless(name, nullptr, kInstead);
  }
  for (const char* name : {"guided_decoding_backend", "guided_decoding_disable_fallback"}) {
    fields.ignore(name);
  }
}

void set_rule(const std::optional<TextRule>& rule, const char* field, const ServedModel& model,
              RuleCache& rules, GenerationRequest& request) {
  if (!rule) return;
  if (request.rule) {
    throw ApiError(400,
                   fmt::format("{} does not work together with {}: give one of them", field,
                               request.rule_field),
                   field);
  }
  request.rule = rules.find(*rule, model);
  request.rule_field = field;
  request.rules = &rules;
}

void read_rule(Fields& fields, const ServedModel& model, RuleCache& rules,
               GenerationRequest& request) {
  const auto set = [&](const std::optional<TextRule>& rule, const char* field) {
    set_rule(rule, field, model, rules, request);
  };
  set(read_response_format(fields), "response_format");
  set(read_structured_outputs(fields), "structured_outputs");
  for (const auto& [field, kind] : kGuidedFields) {
    set(read_guided(fields, field, kind), field);
  }
  refuse_other_constraints(fields);
}

serve::EarlyStopping read_early_stopping(Fields& fields, serve::EarlyStopping otherwise) {
  const Json* given = fields.find("early_stopping");
  if (!given) return otherwise;
  if (given->is_string() && *given == "never") return serve::EarlyStopping::never;
  if (!given->is_boolean()) refuse_type("early_stopping", "true, false or \"never\"", *given);
  return *given == true ? serve::EarlyStopping::at_width : serve::EarlyStopping::by_length;
}

// Beam search does not sample: refuses sampling options of the request, and resets those that are
// defaults of the model's folder.
void read_beams(Fields& fields, GenerationRequest& request) {
  serve::SamplingOptions& sampling = request.sampling;
  const serve::SamplingOptions none;
  if (fields.find("temperature") && sampling.temperature != 0 && sampling.temperature != 1) {
    throw ApiError(400, "beam search does not sample: leave temperature out", "temperature");
  }
  for (const auto& [name, draws] : {std::pair("top_k", sampling.top_k != none.top_k),
                                    std::pair("top_p", sampling.top_p != none.top_p),
                                    std::pair("min_p", sampling.min_p != none.min_p),
                                    std::pair("typical_p", sampling.typical_p != none.typical_p)}) {
    if (!fields.find(name) || !draws) continue;
    throw ApiError(400, fmt::format("beam search does not sample: leave {} out", name), name);
  }
  sampling.temperature = 0;
  sampling.top_k = none.top_k;
  sampling.top_p = none.top_p;
  sampling.min_p = none.min_p;
  sampling.typical_p = none.typical_p;
  serve::BeamSearchOptions& beams = request.beams;
  beams.width = fields.find("best_of") ? request.best_of : std::max(beams.width, request.best_of);
  beams.length_penalty = fields.number("length_penalty", -100, 100).value_or(beams.length_penalty);
  beams.early_stopping = read_early_stopping(fields, beams.early_stopping);
  if (request.beams.width < 2) {
    throw ApiError(400,
                   "use_beam_search needs best_of, the number of beams, which must be 2 or more",
                   "best_of");
  }
  request.best_of = request.n;
}

// Whether a request asks for what beam search, the model's default, does not do.
bool asks_for_sampling(Fields& fields, const GenerationRequest& request) {
  if (request.best_of > request.n) return true;
  const Json* temperature = fields.find("temperature");
  const bool samples = temperature && *temperature != 0;
  return samples || std::ranges::any_of(std::array{"top_k", "top_p", "min_p", "typical_p"},
                                        [&](const char* name) { return fields.find(name); });
}

void read_answers(Fields& fields, GenerationRequest& request) {
  request.n = fields.integer("n", 1, kMaxAnswers).value_or(1);
  request.best_of = fields.integer("best_of", 1, kMaxAnswers).value_or(request.n);
  if (request.best_of < request.n) {
    throw ApiError(400,
                   fmt::format("best_of is {}, below n, which is {}", request.best_of, request.n),
                   "best_of");
  }
  const bool by_default = request.beams.width > 1 && !asks_for_sampling(fields, request);
  if (fields.boolean("use_beam_search", by_default)) return read_beams(fields, request);
  request.beams = {};
  for (const char* name : {"length_penalty", "early_stopping"}) {
    if (!fields.find(name)) continue;
    fields.refuse_unless(name, name == std::string("length_penalty") ? Json(1) : Json(false),
                         "works only with \"use_beam_search\": true");
  }
}

void read_common(Fields& fields, const ServedModel& model, RuleCache& rules,
                 GenerationRequest& request) {
  ModelChoice choice = choose_model(fields, model);
  request.model = std::move(choice.name);
  request.adapter = std::move(choice.adapter);
  request.form = std::move(choice.form);
  read_sampling(fields, model, request);
  read_answers(fields, request);
  read_stops(fields, model, request);
  read_stream(fields, request);
  if (request.best_of > request.n && request.stream) {
    throw ApiError(400, "best_of larger than n does not work with \"stream\": true", "best_of");
  }
  refuse_unsupported(fields);
  read_rule(fields, model, rules, request);
  request.tokens_as_ids = fields.boolean("return_tokens_as_token_ids", false);
  request.prompt_logprobs = fields.integer("prompt_logprobs", 0, kMaxLogprobs).value_or(-1);
  if (request.prompt_logprobs >= 0 && request.stream) {
    throw ApiError(400, "prompt_logprobs do not work with \"stream\": true", "prompt_logprobs");
  }
  request.return_token_ids = fields.boolean("return_token_ids", false);
  request.priority = static_cast<int>(fields.integer("priority", -1000, 1000).value_or(0));
  request.cache_salt = read_cache_salt(fields);
  for (const char* name : {"user", "request_id", "metadata", "store", "service_tier"}) {
    fields.ignore(name);
  }
}

// Keeps the last `kept` tokens of each prompt; all if it is nullopt.
void keep_last(std::optional<int64_t> kept, GenerationRequest& request) {
  if (!kept) return;
  for (GenerationRequest::Prompt& prompt : request.prompts) {
    if (std::ssize(prompt.tokens) > *kept) {
      prompt.tokens.erase(prompt.tokens.begin(), prompt.tokens.end() - *kept);
    }
  }
}

ServedModel::LongText long_text_of(const std::optional<int64_t>& kept) {
  return kept ? ServedModel::LongText::cut_begin : ServedModel::LongText::refuse;
}

int64_t longest_prompt(const GenerationRequest& request) {
  size_t longest = 0;
  for (const auto& prompt : request.prompts) longest = std::max(longest, prompt.tokens.size());
  return static_cast<int64_t>(longest);
}

// wanted: of the request. otherwise: used if neither the request nor the model's settings say
// anything, or as many as there is room for if that is less.
void set_new_tokens(std::optional<int64_t> wanted, int64_t otherwise, TokenLimit limit,
                    const ServedModel& model, GenerationRequest& request) {
  const int64_t longest = model.tokens_before_text(longest_prompt(request));
  const int64_t room = model.max_length() - longest;
  const serve::GenerationSettings& settings = model.generation();
  if (settings.max_new_tokens) {
    otherwise = *settings.max_new_tokens;
  } else if (!wanted && settings.max_length) {
    request.max_length = *settings.max_length;
    otherwise = room;
  }
  request.max_new_tokens = wanted.value_or(otherwise);
  if (!wanted || limit == TokenLimit::at_most) {
    request.max_new_tokens = std::min(request.max_new_tokens, std::max<int64_t>(room, 1));
  }
  for (const auto& prompt : request.prompts) {
    if (prompt.tokens.empty()) throw ApiError(400, "the prompt is empty", "prompt");
  }
  if (request.max_new_tokens > room) {
    throw too_long(model.max_length(),
                   fmt::format("the prompt has {}, and {} more are requested", longest,
                               request.max_new_tokens),
                   "max_tokens");
  }
}

GenerationRequest::Prompt token_prompt(const Json& list, const ServedModel& model,
                                       const char* field, ServedModel::LongText long_text) {
  GenerationRequest::Prompt prompt;
  const bool is_refused = long_text == ServedModel::LongText::refuse;
  if (is_refused && list.size() > static_cast<size_t>(model.max_length())) {
    throw too_long(model.max_length(), fmt::format("the prompt has {}", list.size()), field);
  }
  for (const Json& token : list) prompt.tokens.push_back(read_token(token, field));
  check_tokens(prompt.tokens, model, field);
  prompt.text = model.tokenizer().decode(prompt.tokens);
  return prompt;
}

}  // namespace

std::vector<GenerationRequest::Prompt> read_prompts(Fields& fields, const ServedModel& model,
                                                    const char* field,
                                                    ServedModel::LongText long_text) {
  const bool special = fields.boolean("add_special_tokens", true);
  const Json* given = fields.find(field);
  if (!given) throw ApiError(400, fmt::format("{} is missing", field), field);
  const auto text_prompt = [&](const Json& text) {
    const auto& prompt = text.get_ref<const std::string&>();
    return GenerationRequest::Prompt{model.encode(prompt, special, long_text), prompt};
  };
  if (given->is_string()) return {text_prompt(*given)};
  if (!given->is_array() || given->empty()) {
    refuse_type(field, "a string, a list of strings, a list of tokens, or lists of tokens", *given);
  }
  if (given->front().is_number()) return {token_prompt(*given, model, field, long_text)};
  if (given->size() > kMaxPrompts) {
    throw ApiError(400, fmt::format("a request may have at most {} prompts", kMaxPrompts), field);
  }
  std::vector<GenerationRequest::Prompt> prompts;
  for (const Json& one : *given) {
    if (!one.is_string() && !one.is_array()) {
      refuse_type(field, "either strings or lists of tokens", one);
    }
    prompts.push_back(one.is_string() ? text_prompt(one)
                                      : token_prompt(one, model, field, long_text));
  }
  return prompts;
}

std::optional<int64_t> read_truncation(Fields& fields, const ServedModel& model, int64_t all) {
  const auto length = fields.integer("truncate_prompt_tokens", -1, model.max_length());
  return length && *length < 0 ? all : length;
}

std::string read_cache_salt(Fields& fields) {
  const std::string salt = fields.string("cache_salt").value_or("");
  if (salt.size() > 1024) {
    throw ApiError(400, "cache_salt is longer than 1024 bytes", "cache_salt");
  }
  return salt;
}

ModelChoice choose_model(Fields& fields, const ServedModel& model) {
  std::string name = fields.string("model").value_or(model.name());
  if (constexpr std::string_view kTag = ":latest"; name.ends_with(kTag)) {
    const std::string untagged = name.substr(0, name.size() - kTag.size());
    if (untagged == model.name() || model.adapters().find(untagged)) name = untagged;
  }
  if (name == model.name()) return {name, nullptr, nullptr};
  if (const auto adapter = model.adapters().find(name)) {
    return {name, adapter->weights, adapter->form};
  }
  throw ApiError(404,
                 fmt::format("the model {:?} is not served; available: {}", name.substr(0, 200),
                             model.quoted_names()),
                 "model");
}

text::ChatOptions read_chat_options(Fields& fields, const ToolRequest& tools) {
  text::ChatOptions options{
      .add_generation_prompt = fields.boolean("add_generation_prompt", true),
      .continue_final_message = fields.boolean("continue_final_message", false)};
  if (options.continue_final_message) {
    if (fields.find("add_generation_prompt") && options.add_generation_prompt) {
      throw ApiError(400, "continue_final_message needs \"add_generation_prompt\": false",
                     "continue_final_message");
    }
    options.add_generation_prompt = false;
  }
  fields.refuse_unless("chat_template", nullptr,
                       "templates in requests are not accepted; the model's own is used");
  const auto list = [&](const char* name) {
    const Json* value = fields.find(name);
    if (value && !value->is_array()) refuse_type(name, "a list", *value);
    return value && !value->empty() ? *value : Json();
  };
  options.tools = tools.tools;
  options.documents = list("documents");
  if (const Json* variables = fields.find("chat_template_kwargs")) {
    if (!variables->is_object()) refuse_type("chat_template_kwargs", "an object", *variables);
    options.variables = *variables;
  }
  if (const auto effort = fields.string("reasoning_effort")) {
    options.variables["reasoning_effort"] = *effort;
  }
  return options;
}

GenerationRequest read_completion_request(const Json& body, const ServedModel& model,
                                          RuleCache& rules, TokenLimit limit) {
  Fields fields(body);
  GenerationRequest request;
  read_common(fields, model, rules, request);
  request.echo = fields.boolean("echo", false);
  request.logprobs = fields.integer("logprobs", 0, kMaxLogprobs).value_or(-1);
  fields.refuse_unless("suffix", "", kLater);
  const auto wanted = fields.integer("max_tokens", request.echo ? 0 : 1, kMaxCount);
  const auto kept = read_truncation(fields, model, model.max_length() - 1);
  request.prompts = read_prompts(fields, model, "prompt", long_text_of(kept));
  keep_last(kept, request);
  set_new_tokens(wanted, 16, limit, model, request);
  request.unknown_fields = fields.unknown();
  return request;
}

GenerationRequest read_chat_request(const Json& body, const ServedModel& model, RuleCache& rules,
                                    TokenLimit limit) {
  Fields fields(body);
  GenerationRequest request;
  request.kind = GenerationRequest::Kind::chat;
  read_common(fields, model, rules, request);
  const auto top = fields.integer("top_logprobs", 0, kMaxLogprobs);
  if (fields.boolean("logprobs", false)) request.logprobs = top.value_or(0);
  if (top && *top > 0 && request.logprobs < 0) {
    throw ApiError(400, "top_logprobs needs \"logprobs\": true", "top_logprobs");
  }
  fields.refuse_unless("echo", false, kLater);
  fields.refuse_unless("add_special_tokens", false,
                       "is not supported: the chat template adds special tokens itself");
  const auto old_name = fields.integer("max_tokens", 1, kMaxCount);
  const auto wanted = fields.integer("max_completion_tokens", 1, kMaxCount);
  request.tools = read_tools(fields);
  const text::ChatOptions options = read_chat_options(fields, request.tools);
  if (const auto rule = request.tools.rule()) {
    if (request.rule) {
      throw ApiError(400,
                     fmt::format("{} does not work with a forced tool_choice: give one of them",
                                 request.rule_field),
                     "tool_choice");
    }
    set_rule(rule, "tools", model, rules, request);
  }
  request.include_reasoning = fields.boolean("include_reasoning", true);
  const auto kept = read_truncation(fields, model, model.max_length() - 1);
  ChatPrompt prompt =
      model.encode_chat(read_messages(fields), options, long_text_of(kept), request.form.get());
  request.begin = prompt.begin;
  request.prompts.push_back({std::move(prompt.tokens), ""});
  keep_last(kept, request);
  set_new_tokens(wanted ? wanted : old_name, model.max_length(), limit, model, request);
  request.unknown_fields = fields.unknown();
  return request;
}

}  // namespace colossal::server
