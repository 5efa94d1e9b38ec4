// The functions of families.h about the names of tensors in files, and about adapters.
#include <algorithm>
#include <set>

#include "colossal/adapters/peft_folder.h"
#include "colossal/adapters/peft_names.h"
#include "colossal/adapters/whole_weights.h"
#include "colossal/base/error.h"
#include "colossal/models/families.h"
#include "colossal/models/family_lookup.h"
#include "colossal/nn/dense_builder.h"

namespace colossal::models {

namespace {

// Returns whether a tensor of a multimodal model belongs to its image encoder or projector.
bool is_for_images(std::string_view tensor) {
  constexpr std::string_view kModel = "model.";
  if (tensor.starts_with(kModel)) tensor.remove_prefix(kModel.size());
  return tensor.starts_with("vision_tower.") || tensor.starts_with("multi_modal_projector.");
}

WeightNames names_of(const ModelSpecification& specification) {
  const Family& family = family_of(specification.config);
  WeightNames names = family.weights(specification.transformer);
  if (specification.transformer.scores > 0 && !family.read_scores) {
    names.others.push_back({"score", "score"});
  }
  if (specification.transformer.value_head) names.others.push_back({"value", kValueHead});
  if (specification.transformer.is_draft_head) {
    // files have both side by side in one weight
    const int64_t hidden = specification.transformer.hidden;
    names.others.push_back({.ours = "embedding_product",
                            .theirs = "fc",
                            .columns = {0, hidden},
                            .num_columns = 2 * hidden});
    names.others.push_back({.ours = "state_product",
                            .theirs = "fc",
                            .columns = {hidden, 2 * hidden},
                            .num_columns = 2 * hidden});
  }
  return names;
}

constexpr std::string_view kExperts = ".experts.";

// Returns the name of transformers' layer for all experts of a layer, although files may store each
// expert separately.
std::string layer_of_experts(const WeightNames& names, const std::string& product) {
  constexpr std::string_view kBlocks = "blocks.";
  const std::string block = product.substr(kBlocks.size(), product.find(kExperts) - kBlocks.size());
  return names.prefix_of(std::stoll(block)) + "mlp.experts";
}

std::string module_of_product(const WeightNames& names, const std::string& product) {
  if (product.find(kExperts) == product.npos) {
    return adapters::module_of(slice_of(names, product + ".weight").name);
  }
  return fmt::format("{}.{}", layer_of_experts(names, product),
                     product.ends_with(".down") ? "down_proj" : "gate_up_proj");
}

// Returns the weight under peft's name. peft wraps the layer once for each parameter that has an
// adapter; the inner wrapper is gate_up_proj.
TensorSlice weight_of_experts(const ModelSpecification& specification, const WeightNames& names,
                              const std::string& product) {
  const size_t place = product.find(kExperts) + kExperts.size();
  const std::string matrix = product.substr(place);
  const bool is_inside = matrix != "down" && std::ranges::count(specification.adapter->products,
                                                                product.substr(0, place) + "down",
                                                                &adapters::Product::name) > 0;
  TensorSlice slice{.name = fmt::format("{}{}.weight", layer_of_experts(names, product),
                                        is_inside ? ".base_layer" : "")};
  const int64_t inner = specification.transformer.expert_inner;
  if (matrix == "gate") slice.rows = {{0, inner}};
  if (matrix == "up") slice.rows = {{inner, 2 * inner}};
  if (!slice.rows.empty()) slice.num_rows = 2 * inner;
  return slice;
}

}  // namespace

TensorSlice slice_in_files(const ModelSpecification& specification, const std::string& parameter) {
  if (const auto of_prefix = adapters::find_prefix_parameter(parameter)) {
    return adapters::slice_in_files(*of_prefix, prefixed_model(specification));
  }
  const WeightNames names = names_of(specification);
  if (const auto of_adapter = adapters::find_adapter_parameter(parameter)) {
    if (of_adapter->product.find(kExperts) != std::string::npos) {
      return adapters::slice_in_files(*of_adapter,
                                      weight_of_experts(specification, names, of_adapter->product));
    }
    const TensorSlice weight = slice_of(names, of_adapter->product + ".weight");
    const auto& adapter = specification.adapter;
    const int64_t start_rank = adapter && adapter->settings.pissa
                                   ? adapter->settings.rank_of(adapters::module_of(weight.name))
                                   : 0;
    return adapters::slice_in_files(*of_adapter, weight, start_rank);
  }
  const auto& adapter = specification.adapter;
  if (adapter && std::ranges::count(adapter->trained, parameter) > 0) {
    return adapters::slice_of_trained(slice_of(names, parameter));
  }
  return slice_of(names, parameter);
}

namespace {

// Returns the name in the model's own folder of a tensor of the class that the folder is loaded as.
std::string name_in_folder(const ModelSpecification& specification, std::string name) {
  const std::string& prefix = specification.missing_prefix;
  if (!prefix.empty() && name.starts_with(prefix)) name = name.substr(prefix.size());
  if (!specification.old_norm_names) return name;
  for (const auto& [now, then] :
       {std::pair<std::string_view, std::string_view>{"weight", "gamma"}, {"bias", "beta"}}) {
    const std::string end = fmt::format("LayerNorm.{}", now);
    if (name.ends_with(end)) return name.replace(name.size() - now.size(), now.size(), then);
  }
  return name;
}

// Returns the names of the tensors, in the model's own folder, of its head.
std::set<std::string> head_tensors(const ModelSpecification& specification) {
  std::set<std::string> tensors;
  for (const std::string& name : parameter_names(specification)) {
    if (is_of_head(name)) tensors.insert(slice_in_model(specification, name).name);
  }
  return tensors;
}

}  // namespace

TensorSlice slice_in_model(const ModelSpecification& specification, const std::string& parameter) {
  if (adapters::find_adapter_parameter(parameter) || adapters::find_prefix_parameter(parameter)) {
    return slice_in_files(specification, parameter);
  }
  TensorSlice slice = slice_of(names_of(specification), parameter);
  slice.name = name_in_folder(specification, slice.name);
  return slice;
}

std::set<std::string> tensors_of_token_head(const ModelSpecification& specification) {
  ModelSpecification predicting = specification;
  const Family& family = family_of(specification.config);
  predicting.config["architectures"] = {family.architecture};
  ConfigFields predicting_fields(predicting.config, family.defaults);
  predicting.transformer = read_model(family, predicting_fields);
  predicting.transformer.is_draft_head = specification.transformer.is_draft_head;
  std::set<std::string> tensors = head_tensors(predicting);
  tensors.insert(slice_in_model(predicting, "head.weight").name);  // even if it is tied
  for (const std::string& tensor : head_tensors(specification)) tensors.erase(tensor);
  return tensors;
}

std::vector<std::string> list_trained(const ModelSpecification& specification,
                                      const std::vector<std::string>& modules,
                                      const std::vector<adapters::Product>& adapted,
                                      const std::string& key) {
  if (modules.empty()) return {};
  const WeightNames names = names_of(specification);
  nn::DenseBuilder build;
  const auto with_all = make_layers(specification, build);
  std::set<std::string> trained, found, others;
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    for (const std::string& tensor : slice_of(names, parameter->name).names()) {
      const std::string module = tensor.substr(0, tensor.rfind('.'));
      others.insert(module.substr(module.rfind('.') + 1));
      for (const std::string& name : modules) {
        if (!module.ends_with(name)) continue;  // as peft: "norm" names all norms
        found.insert(name);
        trained.insert(parameter->name);
        if (parameter->tied) {
          throw ConfigError(fmt::format(
              "{} = \"{}\": the output head has the same weights (tie_word_embeddings = true), and "
              "peft would train only one of the two; use a folder with separate weights",
              key, name));
        }
        if (std::ranges::count(adapted, module, &adapters::Product::module) > 0) {
          throw ConfigError(
              fmt::format("{} = \"{}\": {} has an adapter, too; leave it out here, or "
                          "in adapter.targets",
                          key, name, module));
        }
      }
    }
  }
  for (const std::string& name : modules) {
    if (found.contains(name)) continue;
    throw ConfigError(fmt::format("{} = \"{}\": names no module of the model; there are {}", key,
                                  name, fmt::join(others, ", ")));
  }
  return {trained.begin(), trained.end()};
}

std::vector<adapters::Product> list_products(const ModelSpecification& specification) {
  const WeightNames names = names_of(specification);
  std::vector<adapters::Product> products;
  nn::DenseBuilder build;
  build.adapt({.adapted = [&](const std::string& name) -> std::optional<std::string> {
    products.push_back({name, module_of_product(names, name)});
    return std::nullopt;
  }});
  const auto asks_for_all = make_layers(specification, build);
  return products;
}

adapters::PrefixedModel prefixed_model(const ModelSpecification& specification) {
  const TransformerConfig& config = specification.transformer;
  return {config.layers, config.kv_heads, config.head_size};
}

namespace {

// Returns how many of the model's positions remain after the prefix.
int64_t positions_behind(const TransformerConfig& config, const ModelAdapter* adapter) {
  if (!adapter || !adapter->prefix) return config.positions;
  if (config.encoder_layers > 0) {
    throw ConfigError(
        fmt::format("a prefix for a model of family {}: a prefix needs a decoder, but this is an "
                    "encoder-decoder; use adapter.kind = \"lora\"",
                    config.family));
  }
  if (!config.causal) {
    throw ConfigError(
        fmt::format("a prefix for a model of family {}: a prefix comes before a text and needs a "
                    "decoder, but this is an encoder; use adapter.kind = \"lora\"",
                    config.family));
  }
  if (config.has_latents()) {
    throw ConfigError(fmt::format(
        "a prefix for a model of family {}: a prefix needs keys and values of equal size, but "
        "latent attention has keys and values of two sizes; use adapter.kind = \"lora\"",
        config.family));
  }
  const int64_t tokens = adapter->prefix->virtual_tokens;
  if (tokens < config.positions) return config.positions - tokens;
  throw ConfigError(
      fmt::format("a prefix of {} virtual tokens: the model has {} positions, and the text comes "
                  "after the prefix; use at most {} virtual tokens to leave room for it",
                  tokens, config.positions, config.positions - 1));
}

}  // namespace

void set_adapter(ModelSpecification& specification, std::optional<ModelAdapter> adapter) {
  specification.facts.positions =
      positions_behind(specification.transformer, adapter ? &*adapter : nullptr);
  const bool of_latents =
      adapter && std::ranges::any_of(adapter->products, [](const adapters::Product& product) {
        return product.name.ends_with(".key_value_up");
      });
  const bool keeps_latents = specification.transformer.has_latents() && !of_latents;
  specification.facts.key_value_cache_heads =
      specification.transformer.key_value_cache_heads(keeps_latents);
  specification.facts.key_value_cache_features =
      specification.transformer.key_value_cache_features(keeps_latents);
  if (adapter && !adapter->weights.empty()) {  // the adapter's folder contains what it trains
    std::erase_if(specification.newly_initialized, [&](const std::string& parameter) {
      return std::ranges::count(adapter->trained, parameter) > 0;
    });
  }
  specification.adapter = std::move(adapter);
}

namespace {

void refuse_magnitudes_of_vocabulary(const ModelAdapter& adapter,
                                     const std::filesystem::path& folder) {
  if (!adapter.settings.dora) return;
  for (const adapters::Product& product : adapter.products) {
    if (product.is_of_blocks() && !product.is_of_experts()) continue;
    throw ConfigError(
        fmt::format("{}: use_dora = true with an adapter of {}: embeddings, the output head and "
                    "experts support only plain LoRA",
                    folder.string(), product.module));
  }
}

}  // namespace

namespace {

// Changes the size of the model's vocabulary.
void resize_vocabulary(ModelSpecification& specification, int64_t rows) {
  specification.config["vocab_size"] = rows;
  const Family& family = family_of(specification.config);
  ConfigFields fields(specification.config, family.defaults);
  TransformerConfig config = read_model(family, fields);
  config.scores = specification.transformer.scores;
  config.value_head = specification.transformer.value_head;
  config.is_draft_head = specification.transformer.is_draft_head;
  specification.transformer = config;
  specification.facts = facts(config);
}

// The modules of the token embedding and of the head.
struct Tables {
  std::string embedding, head;
};

// Of a model that reads images: empty, because tokens are not added to it.
Tables tables_of(const ModelSpecification& specification) {
  if (specification.transformer.patches) return {};
  const WeightNames names = names_of(specification);
  return {adapters::module_of(slice_of(names, "token_embedding.weight").name),
          specification.transformer.scores > 0
              ? ""
              : adapters::module_of(slice_of(names, "head.weight").name)};
}

// Adapts the specification to the whole tables in an adapter's folder, which the adapter trained or
// which have more rows because tokens were added. Returns the parameters that are read from there.
std::vector<std::string> take_tables(ModelSpecification& specification,
                                     const std::filesystem::path& folder,
                                     const std::map<std::string, int64_t>& whole,
                                     const Tables& tables) {
  const bool tied = specification.transformer.tied_head;
  std::vector<std::string> taken;
  std::optional<int64_t> rows;
  for (const auto& [module, parameter] : {std::pair{tables.embedding, "token_embedding.weight"},
                                          std::pair{tables.head, "head.weight"}}) {
    const auto found = whole.find(module);
    if (found == whole.end()) continue;
    if (rows && *rows != found->second) {
      throw ConfigError(fmt::format("{}: {} has {} rows, {} has {}: they must be equal",
                                    folder.string(), tables.embedding, *rows, module,
                                    found->second));
    }
    rows = found->second;
    if (!tied || module == tables.embedding) taken.emplace_back(parameter);
  }
  if (!rows) return {};
  const int64_t own = specification.transformer.vocabulary;
  const bool both = whole.contains(tables.embedding) && whole.contains(tables.head);
  if (!both && tied) {
    throw ConfigError(fmt::format(
        "{}: it has {} alone, but the embedding and the output head share one table "
        "(tie_word_embeddings = true), so that the other one is unknown; save it again with "
        "LoraConfig(ensure_weight_tying=True)",
        folder.string(), whole.contains(tables.head) ? tables.head : tables.embedding));
  }
  if (*rows == own) return taken;
  if (!both) {
    throw ConfigError(
        fmt::format("{}: {} tokens have been added to the model's {}, but it does not have both "
                    "tables ({} and {}); save it again with save_embedding_layers=True",
                    folder.string(), *rows - own, own, tables.embedding, tables.head));
  }
  resize_vocabulary(specification, *rows);
  return taken;
}

}  // namespace

ModelSpecification with_adapter(ModelSpecification specification,
                                const std::filesystem::path& folder) {
  const adapters::PeftFolder read = adapters::read_peft_folder(folder);
  if (read.prefix) {
    const adapters::PrefixedModel own = prefixed_model(specification), &there = read.prefix->model;
    if (own != there) {
      throw ConfigError(
          fmt::format("{}: a prefix for {} layers of {} heads of {} features, but the model has {} "
                      "layers of {} heads of keys of {}",
                      folder.string(), there.layers, there.kv_heads, there.head_size, own.layers,
                      own.kv_heads, own.head_size));
    }
    set_adapter(
        specification,
        ModelAdapter{
            .settings = {}, .products = {}, .prefix = read.prefix->settings, .weights = folder});
    return specification;
  }
  ModelAdapter adapter{
      .settings = read.settings,
      .products = adapters::adapted_products(folder, read, list_products(specification)),
      .weights = folder};
  refuse_magnitudes_of_vocabulary(adapter, folder);
  const Tables tables = tables_of(specification);
  const std::map<std::string, int64_t> whole = adapters::list_whole_weights(folder);
  adapter.trained = take_tables(specification, folder, whole, tables);
  std::vector<std::string> modules = read.settings.modules_to_save;
  if (!adapter.trained.empty()) {
    std::erase_if(modules, [&](const std::string& name) {
      return tables.embedding.ends_with(name) || tables.head.ends_with(name);
    });
  }
  for (const auto& [module, rows] : whole) {
    const bool is_table = module == tables.embedding || module == tables.head;
    if (is_table || std::ranges::any_of(
                        modules, [&](const std::string& name) { return module.ends_with(name); })) {
      continue;
    }
    throw ConfigError(
        fmt::format("{}: it has the whole weight of {}, which is neither in modules_to_save nor a "
                    "table of the model ({})",
                    folder.string(), module,
                    tables.head.empty() ? tables.embedding
                                        : fmt::format("{}, {}", tables.embedding, tables.head)));
  }
  for (std::string& parameter :
       list_trained(specification, modules, adapter.products,
                    (folder / adapters::kConfigFile).string() + ": modules_to_save")) {
    adapter.trained.push_back(std::move(parameter));
  }
  set_adapter(specification, std::move(adapter));
  return specification;
}

std::optional<std::string> explain_unmapped_tensor(const ModelSpecification& specification,
                                                   const std::string& name) {
  const WeightNames names = names_of(specification);
  const auto in_folder = [&](std::string_view tensor) {
    return name_in_folder(specification, std::string(tensor));
  };
  for (std::string_view end : names.computed) {
    if (name.ends_with(end)) return "";
  }
  for (const std::string& begin : names.unused) {
    if (name.starts_with(in_folder(begin))) return "";
  }
  for (const auto& [copy, original] : names.copies) {
    if (name == in_folder(copy)) return in_folder(original);
  }
  if (family_of(specification.config).multimodal_model_type && is_for_images(name)) return "";
  if (!specification.transformer.value_head && name == std::string(kValueHead) + ".weight") {
    return "";
  }
  if (specification.transformer.is_draft_head && !specification.newly_initialized.empty() &&
      name.starts_with(names.blocks)) {
    return "";  // a block of the target model
  }
  const bool predicts = specification.transformer.scores == 0;
  const bool has_new_head =
      !specification.newly_initialized.empty() ||
      (specification.adapter && std::ranges::count(specification.adapter->trained, "score.weight"));
  if (!predicts && has_new_head && tensors_of_token_head(specification).contains(name)) return "";
  if (predicts && specification.transformer.tied_head &&
      name == slice_in_model(specification, "head.weight").name) {
    return slice_in_model(specification, "token_embedding.weight").name;
  }
  return std::nullopt;
}

}  // namespace colossal::models
