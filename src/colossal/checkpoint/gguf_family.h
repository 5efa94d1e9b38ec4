// How Hugging Face folders and GGUF files of each model family correspond: tensor names, tensor
// values, and the fields of config.json.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colossal/io/gguf.h"
#include "colossal/models/decoder_config.h"

namespace colossal::checkpoint {

using GgufFields = std::vector<std::pair<std::string, io::GgufValue>>;

struct GgufFamily {
  std::string_view name;               // value of "model_type"
  std::string_view gguf_architecture;  // value of "general.architecture"
  std::string_view architecture;       // name of the class in transformers
  // The layers of a block: the name in GGUF, and the name in Hugging Face files. GGUF stores the
  // weights of all experts as one tensor, [experts, .., ..]. Hugging Face files store one tensor
  // per expert; `*` in the name stands for the expert's index.
  std::vector<std::pair<std::string_view, std::string_view>> layers;
  // true: in GGUF, the rotary embedding rotates pairs of adjacent channels of a head. In Hugging
  // Face models, channel i of a head's first half is paired with channel i of its second half. The
  // conversion therefore reorders the rows of the query and key weights.
  bool rotates_adjacent_channels = false;
  // true: GGUF stores a norm's weight as 1 + the weight in Hugging Face files.
  bool norms_add_one = false;
  bool has_experts = false;  // tells apart families with the same general.architecture
};

// Return the family of a "model_type", and of a GGUF file. Throw ConfigError if there is no such
// family; the message lists the supported families. where: prefix of the message.
const GgufFamily& find_gguf_family(std::string_view name, const std::string& where);
const GgufFamily& find_gguf_family(const io::GgufReader& file);

// Where GGUF stores a tensor of a Hugging Face folder.
struct GgufName {
  std::string name;
  std::optional<int64_t> expert{};  // for a tensor of one expert: index along the first dimension
};
// Returns "blk.3.attn_q.weight" for "model.layers.3.self_attn.q_proj.weight". Returns nullopt if
// the family has no such tensor.
std::optional<GgufName> gguf_name(const GgufFamily& family, const std::string& hf_name);
// Returns the names in Hugging Face files of a GGUF tensor: one name, or one for each of the
// `experts` experts. Returns an empty list if the family has no such tensor.
std::vector<std::string> hf_names(const GgufFamily& family, const std::string& gguf_name,
                                  int64_t experts);

// Returns the number of rows of one head if the conversion reorders the tensor's rows
// (rotates_adjacent_channels), else 0.
int64_t rows_of_rotary_head(const GgufFamily& family, std::string_view gguf_name,
                            const models::DecoderConfig& config);
// Whether GGUF stores the tensor's values plus 1 (norms_add_one).
bool adds_one(const GgufFamily& family, std::string_view gguf_name);
// Whether GGUF files store the matrix as f32 whatever type was chosen: true for routers.
bool stays_fp32(std::string_view gguf_name);

// Returns the GGUF fields of the model. Throws ConfigError if GGUF cannot describe the model in
// this family.
GgufFields model_fields(const GgufFamily& family, const models::DecoderConfig& config);
// Returns the divisors of a head's rotary frequencies, for the tensor "rope_freqs.weight". Returns
// an empty list if the model does not scale the frequencies as Llama 3 does.
std::vector<float> frequency_divisors(const models::DecoderConfig& config);

// Returns the contents of config.json for a GGUF file. Throws IoError for a missing field,
// ConfigError for a value that is not supported.
nlohmann::ordered_json config_of(const io::GgufReader& file, const GgufFamily& family);

}  // namespace colossal::checkpoint
