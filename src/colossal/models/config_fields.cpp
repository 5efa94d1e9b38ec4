#include "colossal/models/config_fields.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace colossal::models {
namespace {

[[noreturn]] void refuse(const std::string& name, const nlohmann::json& found,
                         const std::string& wanted) {
  throw FieldError({name}, fmt::format("{} = {}", name, found.dump()), wanted);
}

int64_t checked_size(const std::string& name, const nlohmann::json& value, int64_t minimum,
                     int64_t maximum) {
  const std::string wanted = fmt::format("expected a whole number from {} to {}", minimum, maximum);
  if (!value.is_number_integer()) refuse(name, value, wanted);
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(maximum)) {
    refuse(name, value, wanted);
  }
  const int64_t size = value.get<int64_t>();
  if (size < minimum || size > maximum) refuse(name, value, wanted);
  return size;
}

double checked_number(const std::string& name, const nlohmann::json& value, double minimum,
                      double maximum) {
  const std::string wanted = fmt::format("expected a number from {} to {}", minimum, maximum);
  if (!value.is_number()) refuse(name, value, wanted);
  const double number = value.get<double>();
  if (!(number >= minimum && number <= maximum)) refuse(name, value, wanted);
  return number;
}

// Fields that transformers or a trainer writes into any config.json and that do not change what the
// model computes.
constexpr std::array kFieldsOfNoModel{"_attn_implementation",
                                      "_attn_implementation_autoset",
                                      "_commit_hash",
                                      "_name_or_path",
                                      "architectures",
                                      "attn_implementation",
                                      "auto_map",
                                      "bad_words_ids",
                                      "begin_suppress_tokens",
                                      "cache_implementation",
                                      "chunk_size_feed_forward",
                                      "classifier_dropout",
                                      "diversity_penalty",
                                      "do_sample",
                                      "dtype",
                                      "early_stopping",
                                      "encoder_no_repeat_ngram_size",
                                      "exponential_decay_length_penalty",
                                      "finetuning_task",
                                      "forced_bos_token_id",
                                      "forced_eos_token_id",
                                      "gradient_checkpointing",
                                      "id2label",
                                      "is_decoder",
                                      "is_encoder_decoder",
                                      "label2id",
                                      "length_penalty",
                                      "max_length",
                                      "min_length",
                                      "model_type",
                                      "no_repeat_ngram_size",
                                      "num_beam_groups",
                                      "num_beams",
                                      "num_labels",
                                      "num_return_sequences",
                                      "output_attentions",
                                      "output_hidden_states",
                                      "output_scores",
                                      "prefix",
                                      "pretraining_tp",
                                      "pruned_heads",
                                      "problem_type",
                                      "remove_invalid_values",
                                      "repetition_penalty",
                                      "return_dict",
                                      "return_dict_in_generate",
                                      "sep_token_id",
                                      "suppress_tokens",
                                      "task_specific_params",
                                      "temperature",
                                      "tokenizer_class",
                                      "top_k",
                                      "top_p",
                                      "torch_dtype",
                                      "tf_legacy_loss",
                                      "tie_encoder_decoder",
                                      "torchscript",
                                      "transformers_version",
                                      "typical_p",
                                      "unsloth_fixed",
                                      "unsloth_version",
                                      "use_bfloat16",
                                      "use_cache"};

bool changes_no_computation(std::string_view field) {
  return field.ends_with("_token_id") || field.ends_with("_token_index") ||
         std::ranges::find(kFieldsOfNoModel, field) != kFieldsOfNoModel.end();
}

}  // namespace

FieldError::FieldError(std::vector<std::string> fields, const std::string& given,
                       const std::string& why)
    : ConfigError(fmt::format("config.json: {}{}{}", given, given.empty() ? "" : ": ", why)),
      fields_(std::move(fields)),
      given_(given),
      why_(why) {}

FieldError FieldError::inside(const std::string& name) const {
  std::vector<std::string> fields;
  for (const std::string& field : fields_) fields.push_back(fmt::format("{}.{}", name, field));
  return FieldError(std::move(fields),
                    fmt::format("{}{}{}", name, given_.empty() ? "" : ".", given_), why_);
}

const nlohmann::json* ConfigFields::find(const std::string& name) const {
  auto it = json_.find(name);
  if (it == json_.end()) {
    it = defaults_.find(name);
    if (it == defaults_.end()) return nullptr;
  }
  return it->is_null() ? nullptr : &*it;
}

bool ConfigFields::is_list(const std::string& name) const {
  const nlohmann::json* value = find(name);
  return value && value->is_array();
}

int64_t ConfigFields::required_size(const std::string& name, int64_t maximum) {
  if (!find(name)) {
    throw FieldError(
        {name}, "",
        fmt::format("field \"{}\" is missing; it is a whole number from 1 to {}", name, maximum));
  }
  return size(name, 0, maximum);
}

int64_t ConfigFields::size(const std::string& name, int64_t fallback, int64_t maximum) {
  const nlohmann::json* value = find(name);
  const int64_t size = value ? checked_size(name, *value, 1, maximum) : fallback;
  note(name, size);
  return size;
}

int64_t ConfigFields::count(const std::string& name, int64_t fallback, int64_t maximum) {
  const nlohmann::json* value = find(name);
  const int64_t count = value ? checked_size(name, *value, 0, maximum) : fallback;
  note(name, count);
  return count;
}

int64_t ConfigFields::size_or_none(const std::string& name, int64_t maximum) {
  if (has(name)) return size(name, 0, maximum);
  note(name, nullptr);
  return 0;
}

double ConfigFields::number(const std::string& name, double fallback, double minimum,
                            double maximum) {
  const nlohmann::json* value = find(name);
  // unchanged: transformers distinguishes 1 from 1.0
  note(name, value ? *value : nlohmann::json(fallback));
  return value ? checked_number(name, *value, minimum, maximum) : fallback;
}

double ConfigFields::number_or_none(const std::string& name, double minimum, double maximum) {
  if (has(name)) return number(name, 0, minimum, maximum);
  note(name, nullptr);
  return 0;
}

double ConfigFields::dropout(const std::string& name, double fallback) {
  dropouts_.push_back(name);
  return number(name, fallback, 0, 0.999);
}

bool ConfigFields::flag(const std::string& name, bool fallback) {
  const nlohmann::json* value = find(name);
  if (value && !value->is_boolean()) refuse(name, *value, "expected true or false");
  const bool flag = value ? value->get<bool>() : fallback;
  note(name, flag);
  return flag;
}

std::string ConfigFields::text(const std::string& name, const std::string& fallback) {
  const nlohmann::json* value = find(name);
  if (value && !value->is_string()) refuse(name, *value, "expected a string");
  const std::string text = value ? value->get<std::string>() : fallback;
  note(name, text);
  return text;
}

std::vector<std::string> ConfigFields::text_of_layers(const std::string& name, int64_t layers,
                                                      const std::vector<std::string>& allowed) {
  const nlohmann::json* value = find(name);
  if (!value) return {};
  const std::string wanted =
      fmt::format("expected a list of {} strings, one for each layer, of: {}", layers,
                  fmt::join(allowed, ", "));
  const auto is_allowed = [&](const nlohmann::json& text) {
    return text.is_string() && std::ranges::find(allowed, text.get<std::string>()) != allowed.end();
  };
  if (!value->is_array() || static_cast<int64_t>(value->size()) != layers ||
      !std::ranges::all_of(*value, is_allowed)) {
    refuse(name, *value, wanted);
  }
  note(name, *value);
  return value->get<std::vector<std::string>>();
}

std::vector<double> ConfigFields::numbers(const std::string& name, int64_t count, double minimum,
                                          double maximum) {
  const nlohmann::json* value = find(name);
  if (!value || !value->is_array() || static_cast<int64_t>(value->size()) != count) {
    refuse(name, value ? *value : nlohmann::json(),
           fmt::format("expected a list of {} numbers", count));
  }
  std::vector<double> numbers;
  for (const nlohmann::json& number : *value) {
    numbers.push_back(checked_number(name, number, minimum, maximum));
  }
  note(name, *value);
  return numbers;
}

nlohmann::json ConfigFields::object(const std::string& name) {
  const nlohmann::json* value = find(name);
  if (value && !value->is_object()) refuse(name, *value, "expected an object");
  note(name, value ? *value : nlohmann::json());
  return value ? *value : nlohmann::json();
}

nlohmann::json ConfigFields::list(const std::string& name) {
  const nlohmann::json* value = find(name);
  if (value && !value->is_array()) refuse(name, *value, "expected a list");
  note(name, value ? *value : nlohmann::json::array());
  return value ? *value : nlohmann::json::array();
}

void ConfigFields::require(const std::string& name, const nlohmann::json& supported) {
  require_if_given(name, supported);
  note(name, supported);
}

void ConfigFields::require_if_given(const std::string& name, const nlohmann::json& supported) {
  const nlohmann::json* value = find(name);
  if (!value) return;
  if (*value != supported) {
    refuse(name, *value,
           supported.is_null()
               ? "must be left out: this is not supported"
               : fmt::format("expected {}: nothing else is supported", supported.dump()));
  }
  note(name, supported);
}

void ConfigFields::take(const std::string& name, const ConfigFields& inner) {
  nlohmann::json whole = inner.json();
  whole.update(inner.resolved());
  note(name, whole);
  parts_.insert(name);
  for (const std::string& dropout : inner.dropouts()) {
    dropouts_.push_back(fmt::format("{}.{}", name, dropout));
  }
  for (const std::string& unknown : inner.unknown_fields()) {
    add_unknown(fmt::format("{}.{}", name, unknown));
  }
}

nlohmann::json ConfigFields::unread_fields() const {
  nlohmann::json others = nlohmann::json::object();
  for (const auto& [field, value] : json_.items()) {
    if (!resolved_.contains(field)) others[field] = value;
  }
  return others;
}

std::vector<std::string> ConfigFields::unknown_fields() const {
  std::vector<std::string> unknown = unknown_;
  const nlohmann::json unread = unread_fields();
  for (const auto& [field, value] : unread.items()) {
    if (ignored_.contains(field) || changes_no_computation(field) || value.is_null()) continue;
    unknown.push_back(field);
  }
  return unknown;
}

}  // namespace colossal::models
