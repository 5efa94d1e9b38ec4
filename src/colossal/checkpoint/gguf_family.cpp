#include "colossal/checkpoint/gguf_family.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "colossal/base/error.h"

namespace colossal::checkpoint {
namespace {

using models::TransformerConfig;
using Layers = std::vector<std::pair<std::string_view, std::string_view>>;
using Scaling = ops::RotaryOptions::Scaling;

const Layers kLlamaLayers{
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};

const Layers kGemma2Layers{{"attn_norm", "input_layernorm"},
                           {"attn_q", "self_attn.q_proj"},
                           {"attn_k", "self_attn.k_proj"},
                           {"attn_v", "self_attn.v_proj"},
                           {"attn_output", "self_attn.o_proj"},
                           {"post_attention_norm", "post_attention_layernorm"},
                           {"ffn_norm", "pre_feedforward_layernorm"},
                           {"post_ffw_norm", "post_feedforward_layernorm"},
                           {"ffn_gate", "mlp.gate_proj"},
                           {"ffn_up", "mlp.up_proj"},
                           {"ffn_down", "mlp.down_proj"}};

const Layers kPhi3Layers{
    {"attn_norm", "input_layernorm"},    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_up", "mlp.gate_up_proj"},      {"ffn_down", "mlp.down_proj"}};

// Llama's layers with experts in place of the MLP. router, gate, up, down: names in Hugging Face
// files.
Layers with_experts(std::string_view router, std::string_view gate, std::string_view up,
                    std::string_view down) {
  Layers layers = kLlamaLayers;
  std::erase_if(layers, [](const auto& layer) { return layer.second.starts_with("mlp."); });
  layers.insert(layers.end(), {{"ffn_gate_inp", router},
                               {"ffn_gate_exps", gate},
                               {"ffn_up_exps", up},
                               {"ffn_down_exps", down}});
  return layers;
}

const Layers kOtherLayers{
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};

const std::vector<GgufFamily>& families() {
  static const std::vector<GgufFamily> all{
      {.name = "llama",
       .gguf_architecture = "llama",
       .architecture = "LlamaForCausalLM",
       .layers = kLlamaLayers,
       .rotates_adjacent_channels = true},
      {.name = "mixtral",
       .gguf_architecture = "llama",
       .architecture = "MixtralForCausalLM",
       .layers = with_experts("block_sparse_moe.gate", "block_sparse_moe.experts.*.w1",
                              "block_sparse_moe.experts.*.w3", "block_sparse_moe.experts.*.w2"),
       .rotates_adjacent_channels = true,
       .has_experts = true},
      {.name = "qwen2",
       .gguf_architecture = "qwen2",
       .architecture = "Qwen2ForCausalLM",
       .layers = kLlamaLayers},
      {.name = "qwen3",
       .gguf_architecture = "qwen3",
       .architecture = "Qwen3ForCausalLM",
       .layers = kLlamaLayers},
      {.name = "qwen3_moe",
       .gguf_architecture = "qwen3moe",
       .architecture = "Qwen3MoeForCausalLM",
       .layers = with_experts("mlp.gate", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj",
                              "mlp.experts.*.down_proj"),
       .has_experts = true},
      {.name = "gemma2",
       .gguf_architecture = "gemma2",
       .architecture = "Gemma2ForCausalLM",
       .layers = kGemma2Layers,
       .norms_add_one = true},
      {.name = "phi3",
       .gguf_architecture = "phi3",
       .architecture = "Phi3ForCausalLM",
       .layers = kPhi3Layers}};
  return all;
}

constexpr std::string_view kGgufBlocks = "blk.", kHfBlocks = "model.layers.";

// The parts of a tensor's name: "3", "attn_q" and ".weight" of "blk.3.attn_q.weight".
struct NameParts {
  std::string_view block, layer, end;
};

NameParts parts_of(std::string_view name, std::string_view blocks) {
  NameParts parts;
  const size_t dot = name.rfind('.');
  if (dot != std::string_view::npos) {
    parts.end = name.substr(dot);
    name = name.substr(0, dot);
  }
  if (name.starts_with(blocks)) {
    name.remove_prefix(blocks.size());
    parts.block = name.substr(0, name.find('.'));
    name.remove_prefix(std::min(name.size(), parts.block.size() + 1));
  }
  parts.layer = name;
  return parts;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 7 &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Returns the tensor's name in the other format, or nothing if the family has no such tensor.
// from_gguf: whether `name` is that in GGUF.
std::optional<std::string> renamed(const GgufFamily& family, const std::string& name,
                                   bool from_gguf) {
  const NameParts parts = parts_of(name, from_gguf ? kGgufBlocks : kHfBlocks);
  if (parts.end != ".weight" && parts.end != ".bias") return std::nullopt;
  if (!parts.block.empty() && !is_number(parts.block)) return std::nullopt;
  for (const auto& [gguf, hf] : parts.block.empty() ? kOtherLayers : family.layers) {
    if (parts.layer != (from_gguf ? gguf : hf)) continue;
    const std::string layer(from_gguf ? hf : gguf);
    if (parts.block.empty()) return layer + std::string(parts.end);
    return fmt::format("{}{}.{}{}", from_gguf ? kHfBlocks : kGgufBlocks, parts.block, layer,
                       parts.end);
  }
  return std::nullopt;
}

std::string key(const GgufFamily& family, std::string_view name) {
  return fmt::format("{}.{}", family.gguf_architecture, name);
}

[[noreturn]] void refuse_family(std::string_view name, const std::string& where) {
  std::vector<std::string_view> names;
  for (const GgufFamily& family : families()) names.push_back(family.name);
  throw ConfigError(
      fmt::format("{}: models of the family \"{}\" cannot be converted; supported are {}", where,
                  name, fmt::join(names, ", ")));
}

[[noreturn]] void refuse(const GgufFamily& family, const std::string& what) {
  throw ConfigError(
      fmt::format("convert: {} with {} cannot be converted to GGUF", family.name, what));
}

io::GgufValue count(int64_t number) {
  return io::GgufValue::of(static_cast<uint32_t>(number));
}

io::GgufValue real(double number) {
  return io::GgufValue::of(static_cast<float>(number));
}

// llama.cpp derives the scale of Gemma 2's attention scores from these sizes.
double gemma2_scale(int64_t layers, int64_t hidden, int64_t heads, int64_t head_size) {
  constexpr int64_t kLayersOf27b = 46;
  const double scalar = layers == kLayersOf27b
                            ? static_cast<double>(hidden) / static_cast<double>(heads)
                            : static_cast<double>(head_size);
  return 1 / std::sqrt(scalar);
}

// llama.cpp divides the weights of a token's experts by their sum, and has experts in every layer.
void check_experts(const GgufFamily& family, const TransformerConfig& config) {
  if (!config.router.normalized) refuse(family, "norm_topk_prob = false");
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (!config.has_experts(layer)) refuse(family, "layers without experts");
  }
}

void check(const GgufFamily& family, const TransformerConfig& config) {
  const bool gemma = family.name == "gemma2";
  if (config.activation != (gemma ? ops::Activation::gelu_tanh : ops::Activation::silu)) {
    refuse(family, "this activation function");
  }
  const models::LayerAttention& attention = config.attention_of(0);
  const ops::RotaryOptions& rotary = attention.rotary;
  const bool is_linear = rotary.scaling == Scaling::linear;
  if (!is_linear && !(family.gguf_architecture == "llama" && rotary.scaling == Scaling::llama3)) {
    refuse(family, "this scaling of rotary frequencies; \"linear\" works, and Llama's \"llama3\"");
  }
  if (family.has_experts) check_experts(family, config);
  if (gemma) {
    const double scale = gemma2_scale(config.layers, config.hidden, config.heads, config.head_size);
    if (std::abs(attention.scale - scale) > 1e-9) refuse(family, "this query_pre_attn_scalar");
  } else if (family.name != "phi3" && attention.window > 0) {
    refuse(family, "a sliding window");
  }
  for (int64_t layer = 0; layer < config.layers && !gemma; ++layer) {
    if (!(config.attention_of(layer) == attention)) refuse(family, "layers that differ");
  }
}

int64_t window_of(const TransformerConfig& config) {
  int64_t window = 0;
  for (const models::LayerAttention& attention : config.attention) {
    window = std::max(window, attention.window);
  }
  return window;
}

int64_t required(const io::GgufReader& file, const std::string& key) {
  if (const auto found = file.integer(key); found && *found > 0) return *found;
  throw IoError(
      fmt::format("{}: field \"{}\" is missing, or no positive number", file.path().string(), key));
}

// Returns the rope_scaling of config.json that gives these divisors. GGUF files have the divisors
// only, so this tries the parameters of Llama 3.1 and 3.2.
nlohmann::json llama3_scaling(const io::GgufReader& file, const TransformerConfig& like,
                              const std::vector<float>& divisors) {
  TransformerConfig config = like;
  ops::RotaryOptions& rotary = config.attention.front().rotary;
  rotary.scaling = Scaling::llama3;
  rotary.factor = std::ranges::max(divisors);
  rotary.original_positions = 8192;
  const std::vector<float> expected = frequency_divisors(config);
  const bool same = std::ranges::equal(
      expected, divisors, [](float a, float b) { return std::abs(a - b) <= 1e-4F * std::abs(b); });
  if (!same) {
    throw ConfigError(
        fmt::format("{}: the divisors of rotary frequencies (rope_freqs.weight) are "
                    "not those of Llama 3.1 or 3.2",
                    file.path().string()));
  }
  return {{"rope_type", "llama3"},
          {"factor", rotary.factor},
          {"low_freq_factor", rotary.low_frequency_factor},
          {"high_freq_factor", rotary.high_frequency_factor},
          {"original_max_position_embeddings", rotary.original_positions}};
}

nlohmann::json rope_scaling(const io::GgufReader& file, const GgufFamily& family, double base,
                            int64_t head_size) {
  if (const io::GgufTensor* tensor = file.find("rope_freqs.weight")) {
    std::vector<float> divisors(static_cast<size_t>(tensor->numel()));
    file.read(*tensor, 0, divisors);
    TransformerConfig like;
    like.head_size = head_size;
    like.attention.front().rotary.base = base;
    return llama3_scaling(file, like, divisors);
  }
  const std::string type = file.text(key(family, "rope.scaling.type")).value_or("none");
  if (type == "linear") {
    return {{"rope_type", "linear"},
            {"factor", file.number(key(family, "rope.scaling.factor")).value_or(1)}};
  }
  if (type != "none") {
    throw ConfigError(
        fmt::format("{}: rotary frequencies scaled by \"{}\" are not supported; only \"linear\" is",
                    file.path().string(), type));
  }
  return nullptr;
}

// Adds the fields of a model with experts. Mixtral's experts have the size of its MLP, so they need
// none for it.
void add_experts(const io::GgufReader& file, const GgufFamily& family,
                 nlohmann::ordered_json& config) {
  const bool is_mixtral = family.name == "mixtral";
  config[is_mixtral ? "num_local_experts" : "num_experts"] =
      required(file, key(family, "expert_count"));
  config["num_experts_per_tok"] = required(file, key(family, "expert_used_count"));
  if (is_mixtral) return;
  config["moe_intermediate_size"] = required(file, key(family, "expert_feed_forward_length"));
  config["norm_topk_prob"] = true;
}

// Returns the token ID in a field, or null.
nlohmann::json token(const io::GgufReader& file, const char* name) {
  const auto found = file.integer(fmt::format("tokenizer.ggml.{}_token_id", name));
  return found ? nlohmann::json(*found) : nlohmann::json();
}

}  // namespace

double shortest(double number) {
  return std::stod(fmt::format("{}", static_cast<float>(number)));
}

const GgufFamily& find_gguf_family(std::string_view name, const std::string& where) {
  for (const GgufFamily& family : families()) {
    if (family.name == name) return family;
  }
  refuse_family(name, where);
}

const GgufFamily& find_gguf_family(const io::GgufReader& file) {
  const auto name = file.text("general.architecture");
  if (!name) {
    throw IoError(fmt::format("{}: no field \"general.architecture\"", file.path().string()));
  }
  const bool has_experts = file.integer(*name + ".expert_count").value_or(0) > 0;
  for (const GgufFamily& family : families()) {
    if (family.gguf_architecture == *name && family.has_experts == has_experts) return family;
  }
  refuse_family(has_experts ? *name + " with experts" : *name, file.path().string());
}

std::optional<GgufName> gguf_name(const GgufFamily& family, const std::string& hf_name) {
  constexpr std::string_view kExperts = ".experts.";
  const size_t experts = hf_name.find(kExperts);
  if (experts == hf_name.npos) {
    auto name = renamed(family, hf_name, /*from_gguf=*/false);
    return name ? std::optional(GgufName{std::move(*name)}) : std::nullopt;
  }
  const size_t begin = experts + kExperts.size();
  const size_t end = std::min(hf_name.find('.', begin), hf_name.size());
  const std::string number = hf_name.substr(begin, end - begin);
  if (!is_number(number)) return std::nullopt;
  std::string of_all = hf_name;
  of_all.replace(begin, number.size(), "*");
  auto name = renamed(family, of_all, /*from_gguf=*/false);
  return name ? std::optional(GgufName{std::move(*name), std::stoll(number)}) : std::nullopt;
}

std::vector<std::string> hf_names(const GgufFamily& family, const std::string& gguf_name,
                                  int64_t experts) {
  const auto name = renamed(family, gguf_name, /*from_gguf=*/true);
  if (!name) return {};
  const size_t star = name->find('*');
  if (star == name->npos) return {*name};
  std::vector<std::string> names;
  for (int64_t expert = 0; expert < experts; ++expert) {
    names.push_back(*name);
    names.back().replace(star, 1, std::to_string(expert));
  }
  return names;
}

bool stays_fp32(std::string_view gguf_name) {
  return parts_of(gguf_name, kGgufBlocks).layer == "ffn_gate_inp";
}

int64_t rows_of_rotary_head(const GgufFamily& family, std::string_view gguf_name,
                            const TransformerConfig& config) {
  const std::string_view layer = parts_of(gguf_name, kGgufBlocks).layer;
  return family.rotates_adjacent_channels && (layer == "attn_q" || layer == "attn_k")
             ? config.head_size
             : 0;
}

bool adds_one(const GgufFamily& family, std::string_view gguf_name) {
  return family.norms_add_one && parts_of(gguf_name, kGgufBlocks).layer.ends_with("_norm");
}

std::vector<float> frequency_divisors(const TransformerConfig& config) {
  const ops::RotaryOptions& rotary = config.attention_of(0).rotary;
  if (rotary.scaling != Scaling::llama3) return {};
  const double low_wave =
      static_cast<double>(rotary.original_positions) / rotary.low_frequency_factor;
  const double high_wave =
      static_cast<double>(rotary.original_positions) / rotary.high_frequency_factor;
  std::vector<float> divisors;
  for (int64_t i = 0; i < config.head_size / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(config.head_size);
    const double wave = 2 * std::numbers::pi * std::pow(rotary.base, exponent);
    double divisor = 1;
    if (wave > low_wave) {
      divisor = rotary.factor;
    } else if (wave >= high_wave) {
      const double share =
          (static_cast<double>(rotary.original_positions) / wave - rotary.low_frequency_factor) /
          (rotary.high_frequency_factor - rotary.low_frequency_factor);
      divisor = 1 / ((1 - share) / rotary.factor + share);
    }
    divisors.push_back(static_cast<float>(divisor));
  }
  return divisors;
}

GgufFields model_fields(const GgufFamily& family, const TransformerConfig& config) {
  check(family, config);
  const ops::RotaryOptions& rotary = config.attention_of(0).rotary;
  GgufFields fields{{"general.architecture", io::GgufValue::of(family.gguf_architecture)},
                    {"general.quantization_version", count(2)},
                    {key(family, "vocab_size"), count(config.vocabulary)},
                    {key(family, "context_length"), count(config.positions)},
                    {key(family, "embedding_length"), count(config.hidden)},
                    {key(family, "block_count"), count(config.layers)},
                    {key(family, "feed_forward_length"), count(config.inner)},
                    {key(family, "attention.head_count"), count(config.heads)},
                    {key(family, "attention.head_count_kv"), count(config.kv_heads)},
                    {key(family, "attention.key_length"), count(config.head_size)},
                    {key(family, "attention.value_length"), count(config.head_size)},
                    {key(family, "attention.layer_norm_rms_epsilon"), real(config.norm_epsilon)},
                    {key(family, "rope.dimension_count"),
                     count(rotary.channels > 0 ? rotary.channels : config.head_size)},
                    {key(family, "rope.freq_base"), real(rotary.base)}};
  if (rotary.scaling == Scaling::linear && rotary.factor != 1) {
    fields.emplace_back(key(family, "rope.scaling.type"), io::GgufValue::of("linear"));
    fields.emplace_back(key(family, "rope.scaling.factor"), real(rotary.factor));
  }
  if (family.has_experts) {
    fields.emplace_back(key(family, "expert_count"), count(config.router.experts));
    fields.emplace_back(key(family, "expert_used_count"), count(config.router.chosen));
    fields.emplace_back(key(family, "expert_feed_forward_length"), count(config.expert_inner));
  }
  if (const int64_t window = window_of(config)) {
    fields.emplace_back(key(family, "attention.sliding_window"), count(window));
  }
  if (config.attention_soft_cap > 0) {
    fields.emplace_back(key(family, "attn_logit_softcapping"), real(config.attention_soft_cap));
  }
  if (config.logit_soft_cap > 0) {
    fields.emplace_back(key(family, "final_logit_softcapping"), real(config.logit_soft_cap));
  }
  return fields;
}

nlohmann::ordered_json config_of(const io::GgufReader& file, const GgufFamily& family) {
  const auto size = [&](std::string_view name) { return required(file, key(family, name)); };
  const int64_t hidden = size("embedding_length"), heads = size("attention.head_count");
  const int64_t head_size = file.integer(key(family, "attention.key_length"))
                                .value_or(std::max<int64_t>(1, hidden / heads));
  const double base = file.number(key(family, "rope.freq_base")).value_or(10000);
  const io::GgufTensor* table = file.find("token_embd.weight");
  if (!table) {
    throw IoError(fmt::format("{}: no tensor \"token_embd.weight\"", file.path().string()));
  }
  nlohmann::ordered_json config{
      {"architectures", {family.architecture}},
      {"model_type", family.name},
      {"vocab_size", table->shape.front()},
      {"hidden_size", hidden},
      {"intermediate_size", size("feed_forward_length")},
      {"num_hidden_layers", size("block_count")},
      {"num_attention_heads", heads},
      {"num_key_value_heads", file.integer(key(family, "attention.head_count_kv")).value_or(heads)},
      {"head_dim", head_size},
      {"max_position_embeddings", size("context_length")},
      {"rms_norm_eps",
       shortest(file.number(key(family, "attention.layer_norm_rms_epsilon")).value_or(1e-6))},
      {"rope_theta", base},
      {"tie_word_embeddings", file.find("output.weight") == nullptr},
      {"bos_token_id", token(file, "bos")},
      {"pad_token_id", token(file, "padding")}};
  const nlohmann::json scaling = rope_scaling(file, family, base, head_size);
  if (!scaling.is_null()) config["rope_scaling"] = scaling;
  const bool biased = file.find("blk.0.attn_q.bias") != nullptr;
  if (family.name == "llama" || family.name.starts_with("qwen3")) config["attention_bias"] = biased;
  if (family.has_experts) add_experts(file, family, config);
  const auto window = file.integer(key(family, "attention.sliding_window"));
  if (family.name == "phi3") {
    config["sliding_window"] = window ? nlohmann::json(*window) : nlohmann::json();
    const int64_t turning = file.integer(key(family, "rope.dimension_count")).value_or(head_size);
    if (turning != head_size) {
      config["partial_rotary_factor"] =
          static_cast<double>(turning) / static_cast<double>(head_size);
    }
  }
  if (family.name == "gemma2") {
    const double scale = gemma2_scale(config["num_hidden_layers"], hidden, heads, head_size);
    config["query_pre_attn_scalar"] = std::llround(1 / (scale * scale));
    config["sliding_window"] = window.value_or(4096);
    config["hidden_activation"] = "gelu_pytorch_tanh";
    config["attn_logit_softcapping"] =
        file.number(key(family, "attn_logit_softcapping")).value_or(50);
    config["final_logit_softcapping"] =
        file.number(key(family, "final_logit_softcapping")).value_or(30);
  } else {
    config["hidden_act"] = "silu";
  }
  return config;
}

}  // namespace colossal::checkpoint
