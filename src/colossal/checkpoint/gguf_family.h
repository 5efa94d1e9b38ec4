// Maps Hugging Face folders to GGUF files, for each model family: tensor names, and the fields of
// config.json.
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
  std::string_view name;          // value of "model_type"
  std::string_view file_name;     // value of "general.architecture"
  std::string_view architecture;  // name of the class in transformers
  // Names of the layers of a block: in GGUF, and in Hugging Face files. GGUF stores the weights of
  // all experts as one tensor, [experts, .., ..]; in Hugging Face files `*` is the index of the
  // expert.
  std::vector<std::pair<std::string_view, std::string_view>> layers;
  // true: GGUF rotates adjacent channels of a head, while Hugging Face models rotate the two halves
  // of a head. The rows of queries and keys are then reordered.
  bool rotates_adjacent_channels = false;
  // true: GGUF stores a norm's weight as 1 + the weight in Hugging Face files.
  bool norms_add_one = false;
  bool has_experts = false;
};

// Return the family of a "model_type", and of a file. Throw ConfigError if there is no such family;
// the message lists the supported families. where: prefix of the message.
const GgufFamily& find_gguf_family(std::string_view name, const std::string& where);
const GgufFamily& find_gguf_family(const io::GgufReader& file);

// Name of a tensor in GGUF: "blk.3.attn_q.weight" for "model.layers.3.self_attn.q_proj.weight".
// expert: index along the first dimension, for a tensor of one expert. gguf_name() returns nullopt
// if the family has no such tensor.
struct GgufName {
  std::string name;
  std::optional<int64_t> expert{};
};
std::optional<GgufName> gguf_name(const GgufFamily& family, const std::string& hf_name);
// Inverse of gguf_name(). Returns one name, or one name for each expert; empty if the family has no
// such tensor.
std::vector<std::string> hf_names(const GgufFamily& family, const std::string& gguf_name,
                                  int64_t experts);

// Returns the number of rows of a head if the rows of the tensor are reordered, else 0.
int64_t rows_of_rotary_head(const GgufFamily& family, std::string_view gguf_name,
                            const models::DecoderConfig& config);
bool adds_one(const GgufFamily& family, std::string_view gguf_name);
// Whether a matrix is always stored as fp32. True for routers.
bool stays_whole(std::string_view gguf_name);

// Returns the GGUF fields of the model. Throws ConfigError if GGUF cannot describe the model in
// this family.
GgufFields model_fields(const GgufFamily& family, const models::DecoderConfig& config);
// Returns the divisors of a head's rotary frequencies, for the tensor "rope_freqs.weight". Empty if
// the model's scaling is not that of Llama 3.
std::vector<float> frequency_divisors(const models::DecoderConfig& config);

// Returns the contents of config.json for a GGUF file. Throws IoError for a missing field,
// ConfigError for a value that is not supported.
nlohmann::ordered_json config_of(const io::GgufReader& file, const GgufFamily& family);

}  // namespace colossal::checkpoint
