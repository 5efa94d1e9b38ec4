#include "colossal/models/families.h"

#include <algorithm>

#include "colossal/adapters/peft_folder.h"
#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/nearest.h"
#include "colossal/image/processor.h"
#include "colossal/io/json.h"
#include "colossal/io/tensor_directory.h"
#include "colossal/models/dual_encoder.h"
#include "colossal/models/families/list.h"
#include "colossal/models/family_lookup.h"
#include "colossal/models/nearest_field.h"
#include "colossal/models/transformer.h"
#include "colossal/models/transformer_sharding.h"
#include "colossal/nn/dense_builder.h"

namespace colossal::models {

const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies{
      gpt2::family(),        llama::family(),       qwen2::family(),
      qwen3::family(),       mistral::family(),     gemma::family(),
      gemma2::family(),      gemma3_text::family(), phi3::family(),
      olmo2::family(),       glm4::family(),        cohere::family(),
      cohere2::family(),     smollm3::family(),     gptj::family(),
      gpt_neox::family(),    opt::family(),         bloom::family(),
      falcon::family(),      mixtral::family(),     qwen2_moe::family(),
      qwen3_moe::family(),   deepseek_v2::family(), deepseek_v3::family(),
      gpt_oss::family(),     bert::family(),        roberta::family(),
      xlm_roberta::family(), distilbert::family(),  modernbert::family(),
      bart::family(),        t5::family(),          mt5::family(),
      clip::family(),        siglip::family(),      vit::family(),
      deit::family(),        dinov2::family(),      dinov2_with_registers::family()};
  return kFamilies;
}

namespace {

// Returns the text model's config if config.json describes a multimodal model, else `config`.
nlohmann::json text_config(nlohmann::json config) {
  const nlohmann::json type = config.value("model_type", nlohmann::json());
  for (const Family& family : families()) {
    if (!family.multimodal_model_type || type != family.multimodal_model_type) continue;
    nlohmann::json text = ConfigFields(config).object("text_config");
    if (!text.is_object()) {
      throw FieldError(
          {"text_config"}, "",
          fmt::format(
              "model_type = {}: \"text_config\", which describes the text model, is missing",
              type.dump()));
    }
    for (const char* field : {"tie_word_embeddings", "quantization_config", "eos_token_id"}) {
      if (config.contains(field) && !text.contains(field)) text[field] = config[field];
    }
    text["model_type"] = family.model_type;
    return text;
  }
  return config;
}

nlohmann::json read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  if (!std::filesystem::exists(path)) {
    throw ConfigError(
        fmt::format("no {}: a model's folder holds config.json and *.safetensors", path.string()));
  }
  nlohmann::json json = io::read_json(path);
  if (!json.is_object()) throw ConfigError(fmt::format("{}: not a JSON object", path.string()));
  return json;
}

nlohmann::json preset_config(const std::string& name) {
  for (const Family& family : families()) {
    for (const Preset& preset : family.presets) {
      if (preset.name != name) continue;
      nlohmann::json config = preset.fields;
      config["model_type"] = family.model_type;
      return config;
    }
  }
  throw ConfigError(fmt::format("model.preset = \"{}\": unknown; nearest: \"{}\"; available: {}",
                                name, nearest(name, preset_names()),
                                fmt::join(preset_names(), ", ")));
}

// Returns the transformers class in config.json; "" if there is none.
std::string class_of(const nlohmann::json& config) {
  const nlohmann::json classes = config.value("architectures", nlohmann::json());
  if (!classes.is_array() || classes.empty() || !classes[0].is_string()) return "";
  return classes[0].get<std::string>();
}

// Returns how many scores the model gives a text; 0 if it predicts tokens.
int64_t count_scores(const nlohmann::json& config) {
  if (!class_of(config).ends_with(family_of(config).scoring_class)) return 0;
  const nlohmann::json labels = config.value("id2label", nlohmann::json());
  if (labels.is_object() && !labels.empty()) return static_cast<int64_t>(labels.size());
  const nlohmann::json number = config.value("num_labels", nlohmann::json());
  return number.is_number_integer() && number > 0 ? number.get<int64_t>() : 2;  // as transformers
}

constexpr std::string_view kReconstructingEnd = "ForMaskedImageModeling";

// Whether the model reconstructs masked patches of images.
bool reconstructs(const nlohmann::json& config) {
  return family_of(config).read_reconstruction && class_of(config).ends_with(kReconstructingEnd);
}

// Returns the beginning of the names of the family's transformers classes, such as "Llama".
std::string class_stem(const Family& family) {
  const std::string& predicting = family.architecture;
  for (const char* end : {"ForCausalLM", "ForMaskedLM", "ForConditionalGeneration", "LMHeadModel",
                          "ForImageClassification"}) {
    if (predicting.ends_with(end)) return predicting.substr(0, predicting.rfind(end));
  }
  return predicting;
}

// Returns the class without a head, such as "BertModel".
std::string headless_class(const Family& family) {
  return fmt::format("{}Model", class_stem(family));
}

// Whether the model has two towers, of which one is for texts.
bool has_text_tower(const nlohmann::json& config) {
  const Family& family = family_of(config);
  return family.read_text_tower && class_of(config) == headless_class(family);
}

struct Towers {
  TransformerConfig transformer;
  std::optional<TextTower> texts;  // nullopt: the model has one tower
};

// Reads a config.json of the family whole.
Towers read_towers(const Family& family, ConfigFields& fields) {
  Towers towers{.transformer = read_model(family, fields), .texts = std::nullopt};
  if (has_text_tower(fields.json())) {
    towers.texts = family.read_text_tower(fields, towers.transformer);
  }
  return towers;
}

ModelFacts facts_of(const ModelSpecification& specification) {
  return specification.text_tower ? facts(specification.transformer, *specification.text_tower)
                                  : facts(specification.transformer);
}

// Returns the class of the family that gives scores, such as "LlamaForSequenceClassification".
std::string scoring_architecture(const Family& family) {
  return fmt::format("{}{}", class_stem(family), family.scoring_class);
}

// Returns how an error message about an overridden field begins.
std::string place_of_override(const std::string& field, const ModelRequest& request) {
  const auto place = request.override_places.find(field);
  return place == request.override_places.end() ? "model." + field : place->second;
}

// Removes what a config.json says of classes. Throws ConfigError if the run asks for some.
void erase_labels(nlohmann::json& config, const ModelRequest& request) {
  for (const char* field : {"num_labels", "id2label", "label2id", "problem_type"}) {
    config.erase(field);
    if (!request.overrides.contains(field)) continue;
    throw ConfigError(fmt::format(
        "{}: pretraining on images learns no classes; leave it out, or use colossal tune classify",
        place_of_override(field, request)));
  }
}

// Turns the config.json of a model that reads images into that of one that reconstructs masked
// patches.
void add_reconstruction(nlohmann::json& config, const ModelRequest& request) {
  const Family& family = family_of(config);
  ConfigFields fields(config, family.defaults);
  const TransformerConfig model = family.read(fields);
  if (!model.patches || reconstructs(config)) return;
  if (!family.read_reconstruction) {
    std::vector<std::string> possible;
    for (const Family& other : families()) {
      if (other.read_reconstruction) possible.push_back(other.model_type);
    }
    throw ConfigError(fmt::format(
        "the model, of family {}, cannot be pretrained with masked images: transformers has no "
        "class {}{}; use a model of family {}, or train this one with colossal tune classify "
        "(which colossal plan --classify plans)",
        family.model_type, class_stem(family), kReconstructingEnd, fmt::join(possible, " or ")));
  }
  config["architectures"] = {fmt::format("{}{}", class_stem(family), kReconstructingEnd)};
  if (!request.overrides.contains("encoder_stride"))
    config["encoder_stride"] = model.patches->patch;
  erase_labels(config, request);
}

// Turns the config.json of a family of two towers into that of the model that has both.
void add_text_tower(nlohmann::json& config, const ModelRequest& request) {
  const std::string& folder = request.path;
  const Family& family = family_of(config);
  if (has_text_tower(config)) return;
  const std::string both = headless_class(family);
  if (!folder.empty() && io::holds_weights(folder)) {
    throw ConfigError(fmt::format(
        "{}: a folder of {} has only the tower for images; images and texts are trained together "
        "from a folder of {}, or use colossal tune classify",
        folder, class_of(config), both));
  }
  config["architectures"] = {both};
  erase_labels(config, request);
}

// Turns a config.json into that of a model that gives texts these scores.
void add_scores(nlohmann::json& config, const ModelRequest& request) {
  const bool replaces = request.replace_labels || request.path.empty();
  const int64_t has = replaces ? 0 : count_scores(config), wanted = std::ssize(request.labels);
  if (has > 0 && has != wanted) {
    throw ConfigError(fmt::format("{}: the model has {} labels, but {} {} wanted", request.path,
                                  has, wanted, wanted == 1 ? "is" : "are"));
  }
  if (has > 0) return;
  config["architectures"] = {scoring_architecture(family_of(config))};
  config["id2label"] = config["label2id"] = nlohmann::json::object();
  for (int64_t i = 0; i < wanted; ++i) {
    config["id2label"][fmt::format("{}", i)] = request.labels[i];
    config["label2id"][request.labels[i]] = i;
  }
  config.erase("num_labels");
  if (!request.problem_type.empty()) config["problem_type"] = request.problem_type;
}

constexpr std::string_view kGuessingEnd = "Eagle";  // end of a draft head's class

bool guesses(const nlohmann::json& config) {
  return class_of(config).ends_with(kGuessingEnd);
}

// Whether the folder's model is of the class without a head, such as BertModel, whose tensors lack
// the prefix Family::body.
bool is_headless(const nlohmann::json& config, const Family& family) {
  return !family.body.empty() && class_of(config) == headless_class(family);
}

void add_value_head(ModelSpecification& specification) {
  specification.transformer.value_head = true;
  specification.facts = facts_of(specification);
  if (specification.weights.empty()) return;
  const io::TensorDirectory folder(specification.weights);
  if (!folder.contains(std::string(kValueHead) + ".weight")) {
    specification.newly_initialized = {"value.weight"};
  }
}

ModelSpecification specify(nlohmann::json config) {
  if (config.contains("quantization_config")) {
    read_stored_form(config["quantization_config"]);  // throws if the form is not supported
    config.erase("quantization_config");              // saved checkpoints are not quantized
  }
  const Family& family = family_of(config);
  ConfigFields fields(config, family.defaults);
  ModelSpecification specification;
  Towers towers = read_towers(family, fields);
  specification.transformer = std::move(towers.transformer);
  specification.text_tower = std::move(towers.texts);
  specification.other_fields = fields.unread_fields();
  specification.config = fields.resolved();
  specification.config["model_type"] = family.model_type;
  const bool scores = specification.transformer.scores > 0;
  specification.config["architectures"] = {scores ? scoring_architecture(family)
                                                  : family.architecture};
  if (specification.transformer.reconstructs) {
    specification.config["architectures"] = {
        fmt::format("{}{}", class_stem(family), kReconstructingEnd)};
  }
  if (specification.text_tower) {
    specification.config["architectures"] = {headless_class(family)};
  }
  if (guesses(config)) {
    specification.transformer.is_draft_head = true;
    specification.config["architectures"] = {
        fmt::format("{}{}", family.architecture, kGuessingEnd)};
  }
  specification.facts = facts_of(specification);
  return specification;
}

ModelSpecification specify(nlohmann::json config, double dropout) {
  if (dropout >= 0) {
    const Family& family = family_of(config);
    ConfigFields fields(config, family.defaults);
    read_towers(family, fields);
    for (std::string field : fields.dropouts()) {
      std::ranges::replace(field, '.', '/');
      config[nlohmann::json::json_pointer("/" + field)] = dropout;
    }
  }
  return specify(std::move(config));
}

// Throws ConfigError for an override of a field that nothing knows. fields: those that are known.
[[noreturn]] void refuse_override(const std::string& field, const ModelRequest& request,
                                  const std::vector<std::string>& fields) {
  throw ConfigError(
      fmt::format("{}: no such key, and config.json has no such field; nearest: model.{}",
                  place_of_override(field, request), nearest_field(field, fields)));
}

std::vector<std::string> names_in(const nlohmann::json& object, const std::string& prefix = "") {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(prefix + name);
  return names;
}

// Applies the overrides. They may name any field that the family knows or the config has; of the
// configuration of a part, such as vision_config, those fields that they name. Fields that neither
// sets follow from the others as usual, such as a head's size from the hidden size.
void apply_overrides(nlohmann::json& config, const ModelRequest& request) {
  const Family& family = family_of(config);
  ConfigFields reading(config, family.defaults);
  read_towers(family, reading);
  nlohmann::json known = specify(config).config;
  known.update(config);
  for (const auto& [field, value] : request.overrides.items()) {
    if (!known.contains(field)) refuse_override(field, request, names_in(known));
    if (!reading.parts().contains(field) || !value.is_object()) {
      config[field] = value;
      continue;
    }
    const nlohmann::json& of_part = reading.resolved()[field];
    for (const auto& [inner, inner_value] : value.items()) {
      const std::string name = fmt::format("{}.{}", field, inner);
      if (!of_part.contains(inner)) refuse_override(name, request, names_in(of_part, field + "."));
      config[field][inner] = inner_value;
    }
  }
}

// Gives each setting one field, under the name that the family reads.
void simplify(nlohmann::json& config) {
  const Family& family = family_of(config);
  for (const auto& [other, name] : family.other_names) {
    const auto found = config.find(std::string(other));
    if (found == config.end()) continue;
    if (!found->is_null()) config[std::string(name)] = *found;
    config.erase(std::string(other));
  }
  if (family.simplify) family.simplify(config);
}

// Returns the config of a draft head for this model: one block, like the model's first block.
nlohmann::json config_of_draft_head(const nlohmann::json& config) {
  nlohmann::json head = config;
  const nlohmann::json resolved = specify(config).config;
  for (const char* field : {"num_hidden_layers", "n_layer"}) {
    if (resolved.contains(field)) head[field] = 1;
  }
  for (const char* field : {"layer_types", "no_rope_layers"}) {  // one value per layer
    const nlohmann::json of_layers = config.value(field, nlohmann::json());
    if (of_layers.is_array() && !of_layers.empty()) {
      head[field] = nlohmann::json::array({of_layers[0]});
    }
  }
  const nlohmann::json dense = config.value("mlp_only_layers", nlohmann::json());
  if (dense.is_array()) {  // indices of layers
    head["mlp_only_layers"] = nlohmann::json::array();
    if (std::ranges::count(dense, nlohmann::json(0)) > 0) head["mlp_only_layers"].push_back(0);
  }
  head["architectures"] = {fmt::format("{}{}", family_of(config).architecture, kGuessingEnd)};
  return head;
}

ModelSpecification specify(const ModelRequest& request) {
  nlohmann::json config =
      request.path.empty() ? preset_config(request.preset) : text_config(read_config(request.path));
  simplify(config);
  if (!request.overrides.empty()) {
    apply_overrides(config, request);
    simplify(config);
  }
  if (request.draft_head && !guesses(config)) config = config_of_draft_head(config);
  if (!request.labels.empty()) add_scores(config, request);
  if (request.pretrains && family_of(config).read_text_tower) {
    add_text_tower(config, request);
  } else if (request.pretrains) {
    add_reconstruction(config, request);
  }
  return specify(std::move(config), request.dropout);
}

// Returns where a field of this name was overridden, also a nested field: "rope_scaling.factor".
const std::string* place_of(const std::string& field, const ModelRequest& request) {
  for (const auto& [name, place] : request.override_places) {
    if (name == field || name.ends_with("." + field)) return &place;
  }
  return nullptr;
}

constexpr std::string_view kMaskToken = "patch_embedding.mask_token";

// Finds out how the names of tensors in the model's folder differ from those of the class that it
// is loaded as, and which parts of the head the folder lacks because it is of another class.
void describe_folder(ModelSpecification& specification, bool replace_labels) {
  const nlohmann::json config = text_config(read_config(specification.weights));
  const Family& family = family_of(config);
  if (is_headless(config, family)) specification.missing_prefix = family.body;
  const bool scores = specification.transformer.scores > 0;
  const bool replaces = scores && replace_labels;
  const bool pixels = specification.transformer.reconstructs;
  const bool has_new_head = replaces || (scores && count_scores(config) == 0) ||
                            (pixels && !reconstructs(config)) ||
                            !specification.missing_prefix.empty();
  if (specification.facts.causal && !has_new_head) return;
  const io::TensorDirectory folder(specification.weights);
  specification.old_norm_names = std::ranges::any_of(
      folder.names(), [](const std::string& name) { return name.ends_with("LayerNorm.gamma"); });
  if (!has_new_head) return;
  for (const std::string& name : parameter_names(specification)) {
    if (!is_of_head(name) && !(pixels && name == kMaskToken)) continue;
    if (!replaces && folder.contains(slice_in_model(specification, name).name)) continue;
    specification.newly_initialized.push_back(name);
  }
}

std::vector<std::byte> read_bytes(const io::TensorDirectory& folder, const std::string& tensor) {
  const auto [file, entry] = folder.find(tensor);
  std::vector<std::byte> bytes(entry->bytes());
  file->read(*entry, 0, bytes);
  return bytes;
}

// transformers ties the head of T5 in each config.json that it writes, also if the folder has a
// head with weights of its own; it then reads the head, as this does. It also ties a head that the
// folder lacks, whatever config.json says.
void tie_head_as_stored(ModelSpecification& specification) {
  if (specification.facts.encoder_layers == 0) return;
  const io::TensorDirectory folder(specification.weights);
  const std::string head = slice_in_model(specification, "head.weight").name;
  const std::string table = slice_in_model(specification, "token_embedding.weight").name;
  if (!specification.transformer.tied_head) {
    if (folder.contains(head) || !folder.contains(table)) return;
    specification.transformer.tied_head = true;
    specification.facts = facts_of(specification);
    return;
  }
  if (!folder.contains(head) || !folder.contains(table)) return;
  if (read_bytes(folder, head) == read_bytes(folder, table)) return;
  specification.transformer.tied_head = false;
  specification.config["tie_word_embeddings"] = false;
  specification.facts = facts_of(specification);
}

// Refuses an encoder-decoder that adds other numbers than 0 to its logits.
void check_logits_bias(const ModelSpecification& specification) {
  constexpr const char* kBias = "final_logits_bias";
  if (specification.facts.encoder_layers == 0) return;
  const io::TensorDirectory folder(specification.weights);
  if (!folder.contains(kBias)) return;
  const std::vector<std::byte> bytes = read_bytes(folder, kBias);
  if (std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; })) return;
  throw ConfigError(
      fmt::format("{}: {} has values other than 0, which is not supported: the model's logits have "
                  "no bias",
                  specification.weights.string(), kBias));
}

// Lists the parameters of a draft head that the target model's folder does not have.
void find_new_parts_of_draft_head(ModelSpecification& specification) {
  if (specification.weights.empty() || guesses(read_config(specification.weights))) return;
  for (const std::string& name : parameter_names(specification)) {
    if (name.starts_with("blocks.") || name.find("_product.") != name.npos) {
      specification.newly_initialized.push_back(name);
    }
  }
}

// Says which fields of the folder's config.json have no effect.
void log_unknown_fields(const std::filesystem::path& folder) {
  const std::string path = (folder / "config.json").string();
  nlohmann::json config = text_config(read_config(folder));
  const auto holds = [&](const char* field) {
    return config.contains(field) && config[field].is_object() && !config[field].empty();
  };
  if (holds("rope_scaling") && holds("rope_parameters") &&
      !config["rope_parameters"].contains("full_attention")) {
    log::warn(
        "{}: rope_scaling replaces rope_parameters, as in transformers; remove one of the two",
        path);
  }
  config.erase("quantization_config");
  simplify(config);
  const Family& family = family_of(config);
  ConfigFields fields(config, family.defaults);
  read_towers(family, fields);
  const std::vector<std::string> unknown = fields.unknown_fields();
  if (unknown.empty()) return;
  log::info("{}: nothing reads {}; saved folders keep {}", path, fmt::join(unknown, ", "),
            unknown.size() == 1 ? "it" : "them");
}

}  // namespace

const Family& family_of(const nlohmann::json& config) {
  const nlohmann::json type = config.value("model_type", nlohmann::json());
  std::vector<std::string> known;
  for (const Family& family : families()) {
    if (type == family.model_type) return family;
    known.push_back('"' + family.model_type + '"');
  }
  throw ConfigError(fmt::format("config.json: model_type = {}: unknown family; supported: {}",
                                type.dump(), fmt::join(known, ", ")));
}

TransformerConfig read_model(const Family& family, ConfigFields& fields) {
  TransformerConfig config = family.read(fields);
  config.family = family.model_type;
  config.scores = count_scores(fields.json());
  if (config.causal) fields.require_if_given("is_causal", true);
  fields.require_if_given("per_layer_config", nullptr);  // settings of single layers
  if (config.scores > 0 && config.encoder_layers > 0) {
    throw ConfigError(
        fmt::format("config.json: {}: encoder-decoders that give labels or scores to texts are not "
                    "supported; use an encoder or a decoder",
                    scoring_architecture(family)));
  }
  if (config.scores > 0 && family.read_scores) family.read_scores(fields, config);
  if (reconstructs(fields.json())) family.read_reconstruction(fields, config);
  return config;
}

std::vector<std::string> parameter_names(const ModelSpecification& specification) {
  nn::DenseBuilder build;
  const auto model = make_layers(specification, build);
  std::vector<std::string> names;
  for (const nn::ParameterHandle& parameter : build.parameters()) names.push_back(parameter->name);
  return names;
}

StoredForm stored_form_of(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / "config.json")) return {};
  nlohmann::json config = text_config(read_config(folder));
  StoredForm form = read_stored_form(config.value("quantization_config", nlohmann::json()));
  if (form.method.empty()) return form;
  simplify(config);
  form.in_out = specify(std::move(config)).transformer.stored_in_out;
  return form;
}

bool is_of_head(const std::string& parameter) {
  return parameter.starts_with("head") || parameter.starts_with("score") ||
         parameter.starts_with("reconstruction");
}

std::vector<std::string> numbered_labels(int64_t count) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  return labels;
}

void ask_for_labels_of(const adapters::AdaptedModel& adapted, ModelRequest& request) {
  request.labels = numbered_labels(adapted.scores);
  const nlohmann::json fields =
      adapted.labels.is_object() ? adapted.labels : nlohmann::json::object();
  const nlohmann::json names = fields.value("id2label", nlohmann::json::object());
  for (size_t i = 0; i < request.labels.size() && names.is_object(); ++i) {
    const auto name = names.find(fmt::format("{}", i));
    if (name != names.end() && name->is_string()) request.labels[i] = name->get<std::string>();
  }
  const nlohmann::json type = fields.value("problem_type", nlohmann::json());
  if (type.is_string()) request.problem_type = type.get<std::string>();
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Family& family : families()) {
    for (const Preset& preset : family.presets) names.push_back(preset.name);
  }
  return names;
}

namespace {

// Makes a model read images of the size that the processor in its folder makes. Position embeddings
// are then interpolated, as in transformers with interpolate_pos_encoding = True.
void read_size_of_images(const std::filesystem::path& folder, ModelSpecification& specification) {
  auto& patches = specification.transformer.patches;
  if (!patches || !image::has_processor(folder)) return;
  const auto size = image::Processor::from_folder(folder).output_size();
  if (!size || *size == image::ImageSize{patches->height, patches->width}) return;
  if (size->height < patches->patch || size->width < patches->patch) {
    throw ConfigError(fmt::format(
        "{}: its processor makes images of {} x {} pixels, which have no whole patch of {}",
        folder.string(), size->height, size->width, patches->patch));
  }
  patches->position_rows = patches->rows();
  patches->position_columns = patches->columns();
  patches->height = size->height;
  patches->width = size->width;
  specification.transformer.positions = patches->num_tokens();
  specification.facts = facts_of(specification);
}

}  // namespace

ModelSpecification resolve_model(const ModelRequest& request) {
  if (request.preset.empty() == request.path.empty()) {
    throw ConfigError(fmt::format(
        "model: give either preset or path ({}); for example model.preset = \"gpt2-tiny\"",
        request.preset.empty() ? "neither is given" : "both are given"));
  }
  ModelSpecification specification;
  try {
    specification = specify(request);
  } catch (const FieldError& error) {
    for (const std::string& field : error.fields()) {
      if (const std::string* place = place_of(field, request)) {
        throw ConfigError(fmt::format("{}: {}", *place, error.why()));
      }
    }
    throw;
  }
  if (!request.path.empty()) read_size_of_images(request.path, specification);
  if (!request.path.empty() && io::holds_weights(request.path)) {
    specification.weights = request.path;
  }
  if (!specification.weights.empty()) {
    describe_folder(specification, request.replace_labels);
    tie_head_as_stored(specification);
    check_logits_bias(specification);
  }
  if (!request.path.empty()) log_unknown_fields(request.path);
  if (request.value_head) add_value_head(specification);
  if (request.draft_head) {
    find_new_parts_of_draft_head(specification);
  } else if (specification.transformer.is_draft_head) {
    throw ConfigError(
        fmt::format("{}: this is an EAGLE head, which guesses tokens for another model and reads "
                    "its hidden states: use it with --speculate=eagle --draft={}, or train it with "
                    "colossal tune draft_head",
                    request.path, request.path));
  }
  return specification;
}

std::unique_ptr<Model> make_layers(const ModelSpecification& specification, nn::Builder& build) {
  if (const auto& texts = specification.text_tower) {
    return std::make_unique<DualEncoder>(build, specification.transformer, *texts);
  }
  return std::make_unique<Transformer>(build, specification.transformer);
}

std::unique_ptr<Model> build_model(const ModelSpecification& specification, nn::Builder& build) {
  if (const auto& adapter = specification.adapter) {
    nn::AdapterOptions options =
        adapter->prefix
            ? adapters::adapter_options(*adapter->prefix)
            : adapters::adapter_options(adapter->settings, adapter->products, adapter->trained);
    options.base = adapter->base;
    build.adapt(std::move(options));
  }
  return make_layers(specification, build);
}

parallel::Shardings shardings(const ModelSpecification& specification) {
  parallel::Shardings shardings{sharding(specification.transformer)};
  if (const auto& texts = specification.text_tower) {
    shardings.push_back(sharding(texts->transformer));
  }
  return shardings;
}

}  // namespace colossal::models
