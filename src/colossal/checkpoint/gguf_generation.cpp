#include "colossal/checkpoint/gguf_generation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/io/json.h"

namespace colossal::checkpoint {
namespace {

constexpr const char* kTemplate = "tokenizer.chat_template";
constexpr const char* kTemplateNames = "tokenizer.chat_templates";  // of the templates with names
constexpr const char* kEnds = "tokenizer.ggml.eos_token_ids";
constexpr const char* kConfig = "colossal.generation_config";
// The fields of single end tokens: of a text, of a turn, of a message that is not the last.
constexpr std::array kEndFields{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                "tokenizer.ggml.eom_token_id"};

// The settings of generation that llama.cpp knows.
struct SamplingField {
  const char* gguf;
  const char* hf;
  bool is_whole;
};
constexpr std::array kSamplingFields{
    SamplingField{"general.sampling.temp", "temperature", false},
    SamplingField{"general.sampling.top_k", "top_k", true},
    SamplingField{"general.sampling.top_p", "top_p", false},
    SamplingField{"general.sampling.min_p", "min_p", false},
    SamplingField{"general.sampling.penalty_repeat", "repetition_penalty", false}};

void add_templates(const text::ModelFolder& folder, GgufFields& fields) {
  std::vector<std::string> names;
  for (const text::NamedTemplate& named : folder.chat_templates()) {
    std::string key = kTemplate;
    if (named.name != text::kDefaultTemplate) {
      names.push_back(named.name);
      key += "." + named.name;
    }
    fields.emplace_back(key, io::GgufValue::of(named.source));
  }
  if (!names.empty()) fields.emplace_back(kTemplateNames, io::GgufValue::of(names));
}

// The tokenizer's end token is the first, because readers take it for the tokenizer's.
void add_end_tokens(const text::ModelFolder& folder, bool names_end, GgufFields& fields) {
  const auto tokenizer = folder.tokenizer();
  const std::vector<int32_t> all = folder.end_tokens(*tokenizer);
  std::vector<int32_t> sorted = all;
  std::ranges::stable_partition(sorted,
                                [&](int32_t token) { return token == tokenizer->end_of_text(); });
  const auto names = std::span(kEndFields).subspan(names_end ? 1 : 0);
  for (size_t i = 0; i < std::min(sorted.size(), names.size()); ++i) {
    fields.emplace_back(names[i], io::GgufValue::of(static_cast<uint32_t>(sorted[i])));
  }
  if (all.size() > 1 || names_end) fields.emplace_back(kEnds, io::GgufValue::of(all));
  if (all.size() > names.size()) {
    log::warn(
        "a GGUF file names {} end tokens for llama.cpp; only Colossal stops at the others too",
        names.size());
  }
}

void add_settings(const text::ModelFolder& folder, GgufFields& fields) {
  const auto [file, config] = folder.generation_config();
  if (config.is_null() || file.filename() != text::kGenerationConfigFile) return;
  fields.emplace_back(kConfig, io::GgufValue::of(config.dump()));
  const bool is_greedy = config.value("do_sample", nlohmann::json()) == false;
  if (is_greedy) fields.emplace_back("general.sampling.temp", io::GgufValue::of(0.0F));
  for (const auto& [gguf, hf, is_whole] : kSamplingFields) {
    const auto found = config.find(hf);
    if (is_greedy || found == config.end() || !found->is_number()) continue;
    const auto number = found->get<float>();
    fields.emplace_back(gguf, is_whole
                                  ? io::GgufValue::of(static_cast<uint32_t>(std::max(0.0F, number)))
                                  : io::GgufValue::of(number));
  }
  std::vector<std::string> untold;
  for (const auto& [name, value] : config.items()) {
    const bool is_known = name.ends_with("_token_id") || name == "do_sample" ||
                          name == "transformers_version" || name == "_from_model_config" ||
                          std::ranges::any_of(kSamplingFields, [&](const SamplingField& field) {
                            return name == field.hf;
                          });
    if (!is_known && !value.is_null()) untold.push_back(name);
  }
  if (untold.empty()) return;
  log::info("only Colossal reads these settings of {} from a GGUF file: {}", file.string(),
            fmt::join(untold, ", "));
}

// The name becomes a part of a path.
void require_template_name(const std::string& name, const io::GgufReader& file) {
  const bool is_word = std::ranges::all_of(name, [](unsigned char character) {
    return std::isalnum(character) != 0 || character == '_' || character == '-';
  });
  if (is_word && !name.empty()) return;
  throw IoError(
      fmt::format("{}: a chat template has the name {}: only letters, digits, _ and - are "
                  "accepted",
                  file.path().string(), io::quote_text(name)));
}

std::vector<int32_t> listed_end_tokens(const io::GgufReader& file) {
  std::vector<double> numbers = file.numbers(kEnds).value_or(std::vector<double>());
  for (const char* field : kEndFields) {
    const auto token = file.integer(field);
    if (token) numbers.push_back(static_cast<double>(*token));
  }
  std::vector<int32_t> tokens;
  for (const double number : numbers) {
    const auto token = static_cast<int32_t>(number);
    if (std::ranges::find(tokens, token) == tokens.end()) tokens.push_back(token);
  }
  return tokens;
}

// Returns the text of generation_config.json; "" if the file has no settings.
std::string settings_of(const io::GgufReader& file) {
  if (const auto text = file.text(kConfig)) {
    const nlohmann::json config = io::parse_json(*text, file.path().string() + ": " + kConfig);
    return config.dump(2) + "\n";
  }
  nlohmann::json config = nlohmann::json::object();
  for (const auto& [gguf, hf, is_whole] : kSamplingFields) {
    if (is_whole) {
      if (const auto number = file.integer(gguf)) config[hf] = *number;
    } else if (const auto number = file.number(gguf)) {
      config[hf] = shortest(*number);
    }
  }
  if (config.empty()) return "";
  config["do_sample"] = config.value("temperature", 1.0) > 0;
  if (config["do_sample"] == false) config.erase("temperature");
  return config.dump(2) + "\n";
}

}  // namespace

GgufFields generation_fields(const text::ModelFolder& folder, bool names_end) {
  GgufFields fields;
  if (!std::filesystem::exists(folder.tokenizer_folder() / text::kTokenizerFile)) return fields;
  add_templates(folder, fields);
  add_end_tokens(folder, names_end, fields);
  add_settings(folder, fields);
  return fields;
}

nlohmann::json end_tokens_of(const io::GgufReader& file) {
  const std::vector<int32_t> tokens = listed_end_tokens(file);
  if (tokens.empty()) return nullptr;
  return tokens.size() == 1 ? nlohmann::json(tokens.front()) : nlohmann::json(tokens);
}

std::map<std::string, std::string> generation_files(const io::GgufReader& file) {
  std::map<std::string, std::string> files;
  if (const auto chat = file.text(kTemplate)) files[text::kTemplateFile] = *chat;
  for (const std::string& name : file.texts(kTemplateNames).value_or(std::vector<std::string>())) {
    require_template_name(name, file);
    if (const auto chat = file.text(fmt::format("{}.{}", kTemplate, name))) {
      files[fmt::format("{}/{}.jinja", text::kMoreTemplates, name)] = *chat;
    }
  }
  if (const std::string settings = settings_of(file); !settings.empty()) {
    files[text::kGenerationConfigFile] = settings;
  }
  return files;
}

}  // namespace colossal::checkpoint
