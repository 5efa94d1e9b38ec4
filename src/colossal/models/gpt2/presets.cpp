#include "colossal/models/gpt2/presets.h"

#include "colossal/models/preset_list.h"

namespace colossal::models::gpt2 {
namespace {

const PresetList<Config>& presets() {
  const auto make = [](int64_t layers, int64_t hidden, int64_t heads, int64_t vocabulary) {
    return Config{.vocab_size = vocabulary,
                  .n_positions = 1024,
                  .n_embd = hidden,
                  .n_layer = layers,
                  .n_head = heads,
                  .embd_pdrop = 0,
                  .attn_pdrop = 0,
                  .resid_pdrop = 0};
  };
  static const PresetList<Config> kPresets{
      {"gpt2-tiny", make(4, 256, 4, 512)},       {"gpt2-124m", make(12, 768, 12, 50304)},
      {"gpt2-355m", make(24, 1024, 16, 50304)},  {"gpt2-774m", make(36, 1280, 20, 50304)},
      {"gpt2-1558m", make(48, 1600, 25, 50304)},
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

}  // namespace colossal::models::gpt2
