// How GGUF files name what Hugging Face folders hold, family by family: tensors, and the fields of
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
  std::string_view name;          // of "model_type"
  std::string_view file_name;     // of "general.architecture"
  std::string_view architecture;  // the class of transformers
  // For each layer of a block: its name in GGUF, and in Hugging Face files. Layers of experts are
  // one tensor in GGUF, [experts, .., ..]; in Hugging Face files `*` is the number of an expert.
  std::vector<std::pair<std::string_view, std::string_view>> layers;
  // True: neighbouring channels of a head are rotated together, so rows of queries and keys lie in
  // another order than in Hugging Face files, which rotate the two halves of a head.
  bool turns_neighbours = false;
  bool norms_add_one = false;  // a norm's weight in GGUF is 1 + the one in Hugging Face files
  bool has_experts = false;
};

// Throw ConfigError, naming the families that there are. The second is that of a file.
const GgufFamily& find_gguf_family(std::string_view name, const std::string& where);
const GgufFamily& find_gguf_family(const io::GgufReader& file);

// "blk.3.attn_q.weight" of "model.layers.3.self_attn.q_proj.weight"; nothing for a name that the
// family does not have. expert: set for a tensor of one expert, which is that part of the tensor.
struct GgufName {
  std::string name;
  std::optional<int64_t> expert{};
};
std::optional<GgufName> gguf_name(const GgufFamily& family, const std::string& hf_name);
// The way back: one name, or one for each expert; none for a name that the family does not have.
std::vector<std::string> hf_names(const GgufFamily& family, const std::string& gguf_name,
                                  int64_t experts);

// Returns the rows of a head, for tensors whose rows are reordered; 0 for other tensors.
int64_t rows_of_turning_heads(const GgufFamily& family, std::string_view gguf_name,
                              const models::DecoderConfig& config);
bool adds_one(const GgufFamily& family, std::string_view gguf_name);
// Whether a matrix stays in fp32 whatever the others are: a router.
bool stays_whole(std::string_view gguf_name);

// Returns the model's fields. Throws ConfigError for a model that GGUF cannot describe in this
// family.
GgufFields model_fields(const GgufFamily& family, const models::DecoderConfig& config);
// Factors by which a head's frequencies are divided, for the tensor "rope_freqs.weight"; empty
// where there is none.
std::vector<float> frequency_divisors(const models::DecoderConfig& config);

// Returns config.json. Throws IoError for a missing field, ConfigError for what is not known.
nlohmann::ordered_json config_of(const io::GgufReader& file, const GgufFamily& family);

}  // namespace colossal::checkpoint
