#include "colossal/training/saved_model.h"

#include <algorithm>
#include <filesystem>

#include "colossal/adapters/peft_folder.h"
#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/io/json.h"
#include "colossal/text/model_folder.h"

namespace colossal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "config.json";
constexpr const char* kGenerationFile = text::kGenerationConfigFile;

const char* torch_name(at::ScalarType type) {
  return type == at::kBFloat16 ? "bfloat16" : type == at::kDouble ? "float64" : "float32";
}

// Returns every "*_token_id" among the fields.
nlohmann::json token_numbers(const nlohmann::json& fields) {
  nlohmann::json numbers = nlohmann::json::object();
  for (const auto& [field, value] : fields.items()) {
    if (field.ends_with("_token_id")) numbers[field] = value;
  }
  return numbers;
}

// Returns every "*_token_id" that the model's config.json or the run sets.
nlohmann::json token_numbers(const models::ModelRequest& model) {
  nlohmann::json given = io::read_json(fs::path(model.path) / kConfigFile);
  given.update(model.overrides);
  return token_numbers(given);
}

nlohmann::json without_token_numbers(nlohmann::json config) {
  std::erase_if(config.get_ref<nlohmann::json::object_t&>(),
                [](const auto& field) { return field.first.ends_with("_token_id"); });
  return config;
}

bool names(const nlohmann::json& end, int32_t token) {
  return end.is_array() ? std::find(end.begin(), end.end(), token) != end.end() : end == token;
}

// Returns whether the token ids of model.path belong to the run's tokenizer: it is the folder's
// own, or at least has the end-of-text token of the folder's config.json.
bool numbers_are_of(const models::ModelRequest& model, const text::Tokenizer& tokenizer) {
  const fs::path own = fs::path(model.path) / text::kTokenizerFile;
  std::error_code ignored;
  if (fs::exists(own, ignored)) {
    const text::TokenizerFiles files = tokenizer.files();
    const std::string* json = text::find_file(files, text::kTokenizerFile);
    return json && *json == io::read_file(own);
  }
  return names(token_numbers(model).value("eos_token_id", nlohmann::json()),
               tokenizer.end_of_text());
}

// Returns the tokenizer files of the source, and the files that only the run's tokenizer has.
text::TokenizerFiles source_files(const fs::path& folder, const text::Tokenizer& tokenizer) {
  text::TokenizerFiles files;
  std::error_code ignored;
  if (fs::exists(folder / text::kTokenizerFile, ignored)) {
    files = text::read_tokenizer_files(folder / text::kTokenizerFile);
  }
  for (const auto& [name, content] : tokenizer.files()) {
    if (!text::find_file(files, name)) files.emplace_back(name, content);
  }
  if (fs::exists(folder / kGenerationFile, ignored)) {
    files.emplace_back(kGenerationFile, io::read_file(folder / kGenerationFile));
  }
  return files;
}

// Whether texts are generated with the model, which therefore must know where they end.
bool generates(const Job& job) {
  return job.model.facts.causal && job.model.transformer.scores == 0;
}

std::vector<int32_t> end_tokens_of(const text::TaughtText& taught,
                                   const text::Tokenizer& tokenizer) {
  return taught.end_tokens.empty() ? std::vector{tokenizer.end_of_text()} : taught.end_tokens;
}

// Adds a generation_config.json for an adapter, if its base model's folder does not name the tokens
// that end a text.
void add_end_tokens_of_adapter(const fs::path& base, const text::TaughtText& taught,
                               const text::Tokenizer& tokenizer, text::TokenizerFiles& files) {
  const text::ModelFolder folder(base);
  const std::vector<int32_t> known = folder.end_tokens(tokenizer);
  const std::vector<int32_t> tokens = end_tokens_of(taught, tokenizer);
  const bool are_known = std::ranges::all_of(
      tokens, [&](int32_t token) { return std::ranges::find(known, token) != known.end(); });
  if (are_known) return;
  const auto [file, fields] = folder.generation_config();
  nlohmann::json settings =
      file.filename() == kGenerationFile && fields.is_object() ? fields : nlohmann::json::object();
  settings["eos_token_id"] = known;
  files.emplace_back(kGenerationFile, settings.dump(2) + "\n");
  text::set_end_tokens(nullptr, files, tokens, tokenizer);
}

// Returns an adapter's configuration and the names of its labels, without other files.
SavedModel describe_adapter_alone(const Job& job) {
  const models::ModelAdapter& adapter = *job.model.adapter;
  const adapters::BaseModel base{
      fs::absolute(job.model.weights).lexically_normal().string(),
      job.model.transformer.stored_in_out, job.model.transformer.scores > 0,
      job.model.facts.encoder_layers > 0, job.model.text_tower.has_value()};
  SavedModel saved{.weight_files = weight_files_of(job)};
  if (adapter.prefix) {
    const adapters::PrefixedModel model = models::prefixed_model(job.model);
    saved.config = adapters::peft_config(*adapter.prefix, model, base.folder, base.scores);
    saved.shaping_fields = adapters::shaping_fields(*adapter.prefix, model);
  } else {
    const std::vector<adapters::Product> products = models::list_products(job.model);
    saved.config = adapters::peft_config(adapter.settings, products, adapter.products, base);
    saved.shaping_fields = adapters::shaping_fields(adapter.settings, products, adapter.products);
  }
  if (base.scores && job.model.other_fields.contains("problem_type")) {
    nlohmann::json labels;
    for (const char* field : {"id2label", "label2id", "problem_type"}) {
      const auto found = job.model.other_fields.find(field);
      if (found != job.model.other_fields.end()) labels[field] = *found;
    }
    saved.files.emplace_back(adapters::kLabelsFile, labels.dump(2) + "\n");
  }
  return saved;
}

SavedModel describe_saved_adapter(const Job& job, const text::Tokenizer& tokenizer,
                                  const text::TaughtText& taught) {
  SavedModel saved = describe_adapter_alone(job);
  for (auto& file : source_files(job.model.weights, tokenizer)) {
    if (file.first != kGenerationFile) saved.files.push_back(std::move(file));
  }
  if (taught.chat_templates) text::set_chat_templates(saved.files, *taught.chat_templates);
  if (generates(job)) {
    add_end_tokens_of_adapter(job.model.weights, taught, tokenizer, saved.files);
  }
  return saved;
}

// Returns a model's config.json without the numbers of tokens, and no other files.
SavedModel describe_model_alone(const Job& job) {
  SavedModel saved{.config = without_token_numbers(job.model.other_fields),
                   .shaping_fields = job.model.config,
                   .files = {}};
  saved.config.update(job.model.config);
  saved.config.erase("torch_dtype");  // transformers 4's name of dtype
  saved.config["dtype"] = torch_name(job.precision.compute);
  return saved;
}

}  // namespace

checkpoint::WeightFiles weight_files_of(const Job& job) {
  if (!job.model.adapter) return {};
  return {.config = adapters::kConfigFile, .name = "adapter_model", .only_adapter = true};
}

SavedModel describe_saved_model(const Job& job, const text::Tokenizer& tokenizer,
                                const text::TaughtText& taught) {
  if (job.model.adapter) return describe_saved_adapter(job, tokenizer, taught);
  const models::ModelRequest& model = job.config.model;
  const bool keep = !model.path.empty() && numbers_are_of(model, tokenizer);
  SavedModel saved = describe_model_alone(job);
  saved.config.update(keep ? token_numbers(model) : token_numbers(model.overrides));
  saved.files = keep ? source_files(model.path, tokenizer) : tokenizer.files();
  if (saved.config.value("eos_token_id", nlohmann::json()).is_null()) {
    saved.config["bos_token_id"] = tokenizer.end_of_text();
    saved.config["eos_token_id"] = tokenizer.end_of_text();
  }
  if (taught.chat_templates) text::set_chat_templates(saved.files, *taught.chat_templates);
  if (generates(job) && !model.overrides.contains("eos_token_id")) {
    text::set_end_tokens(&saved.config, saved.files, end_tokens_of(taught, tokenizer), tokenizer);
  }
  // If the field is absent transformers uses the family's default, which may be outside the
  // vocabulary.
  saved.config.emplace("pad_token_id", nullptr);
  // The score is that of the last token that is not padding, so the model needs a padding token.
  if (job.model.transformer.scores > 0 && saved.config["pad_token_id"].is_null()) {
    saved.config["pad_token_id"] = tokenizer.end_of_text();
  }
  if (!keep && !model.path.empty()) {
    log::info("checkpoints have the token numbers of {}, not those of {}", job.tokenizer,
              model.path);
  }
  return saved;
}

SavedModel describe_saved_image_model(const Job& job, const std::string& processor) {
  SavedModel saved = job.model.adapter ? describe_adapter_alone(job) : describe_model_alone(job);
  saved.files.emplace_back("preprocessor_config.json", processor);
  return saved;
}

}  // namespace colossal
