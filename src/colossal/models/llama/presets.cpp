#include "colossal/models/llama/presets.h"

#include "colossal/models/preset_list.h"

namespace colossal::models::llama {
namespace {

struct Size {
  int64_t layers, hidden, inner, heads, kv_heads;
};

Config llama2(const Size& size) {
  return {.vocab_size = 32000,
          .hidden_size = size.hidden,
          .intermediate_size = size.inner,
          .num_hidden_layers = size.layers,
          .num_attention_heads = size.heads,
          .num_key_value_heads = size.kv_heads,
          .head_dim = size.hidden / size.heads,
          .max_position_embeddings = 4096,
          .rms_norm_eps = 1e-5};
}

Config llama3(const Size& size, double factor) {
  Config config = llama2(size);
  config.vocab_size = 128256;
  config.max_position_embeddings = 131072;
  config.rotary = {.base = 500000, .factor = factor, .original_positions = 8192};
  return config;
}

Config tied(Config config) {
  config.tie_word_embeddings = true;
  return config;
}

Config tiny() {
  Config config = llama2({4, 256, 688, 4, 2});
  config.vocab_size = 512;
  config.max_position_embeddings = 1024;
  return config;
}

Config qwen2(const Size& size, int64_t vocabulary) {
  Config config = llama2(size);
  config.is_qwen2 = true;
  config.vocab_size = vocabulary;
  config.max_position_embeddings = 32768;
  config.rms_norm_eps = 1e-6;
  config.rotary = {.base = 1e6};
  return config;
}

const PresetList<Config>& presets() {
  static const PresetList<Config> kPresets{
      {"llama-tiny", tiny()},
      {"llama2-7b", llama2({32, 4096, 11008, 32, 32})},
      {"llama2-70b", llama2({80, 8192, 28672, 64, 8})},
      {"llama3.2-1b", tied(llama3({16, 2048, 8192, 32, 8}, 32))},
      {"llama3.1-8b", llama3({32, 4096, 14336, 32, 8}, 8)},
      {"llama3.1-70b", llama3({80, 8192, 28672, 64, 8}, 8)},
      {"llama3.1-405b", llama3({126, 16384, 53248, 128, 8}, 8)},
      {"qwen2-0.5b", tied(qwen2({24, 896, 4864, 14, 2}, 151936))},
      {"qwen2-7b", qwen2({28, 3584, 18944, 28, 4}, 152064)},
  };
  return kPresets;
}

}  // namespace

std::vector<std::string> preset_names() {
  return names_of(presets());
}

std::optional<Config> preset(const std::string& name) {
  return find_preset(presets(), name);
}

}  // namespace colossal::models::llama
