// How Hugging Face folders and GGUF files correspond, for each model family that can be converted:
// the names of tensors, their values, and the fields of config.json. gguf_conversion.h uses it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colossal/io/gguf.h"
#include "colossal/models/transformer_config.h"

namespace colossal::checkpoint {

// Fields of a GGUF header: names and values, in order.
using GgufFields = std::vector<std::pair<std::string, io::GgufValue>>;

struct GgufFamily {
  std::string_view name;               // value of "model_type" in config.json
  std::string_view gguf_architecture;  // value of the GGUF field "general.architecture"
  std::string_view architecture;       // name of the class in transformers
  // The layers of a block: the name in GGUF, then the name in Hugging Face files, such as "attn_q",
  // "self_attn.q_proj"; without the block's prefix and without ".weight". GGUF stores a weight of
  // all experts as one tensor [experts, .., ..]. Hugging Face files store one tensor per expert;
  // `*` in the name stands for the expert's index.
  std::vector<std::pair<std::string_view, std::string_view>> layers;
  // True: in GGUF, the rotary embedding rotates pairs of adjacent channels of a head. In Hugging
  // Face models, it rotates channel i of the head's first half with channel i of the second half.
  // The conversion therefore reorders the rows of the query and key weights.
  bool rotates_adjacent_channels = false;
  // True: GGUF stores a norm's weight as 1 + the weight in Hugging Face files.
  bool norms_add_one = false;
  // Whether the models have experts. Tells apart families with the same general.architecture, such
  // as llama and mixtral.
  bool has_experts = false;
};

// Returns the family with this model_type. Throws ConfigError with the supported families if there
// is none. where: prefix of the message, such as a path.
const GgufFamily& find_gguf_family(std::string_view name, const std::string& where);
// Returns the family of a GGUF file. Throws ConfigError with the supported families if there is
// none, and IoError if the file does not name its architecture.
const GgufFamily& find_gguf_family(const io::GgufReader& file);

// Where GGUF stores a tensor of a Hugging Face folder.
struct GgufName {
  std::string name;
  // For a tensor of one expert: the expert's index along the first dimension of the GGUF tensor.
  // nullopt: the GGUF tensor is the whole tensor.
  std::optional<int64_t> expert{};
};
// Returns the GGUF name of a tensor, such as "blk.3.attn_q.weight" for
// "model.layers.3.self_attn.q_proj.weight"; nullopt if the family has no such tensor.
std::optional<GgufName> gguf_name(const GgufFamily& family, const std::string& hf_name);
// Returns the names of a GGUF tensor in Hugging Face files: one name, or one name per expert if the
// tensor is of all experts. Empty if the family has no such tensor. experts: number of experts.
std::vector<std::string> hf_names(const GgufFamily& family, const std::string& gguf_name,
                                  int64_t experts);

// Returns the number of rows of a head if the conversion reorders the tensor's rows (see
// rotates_adjacent_channels), otherwise 0.
int64_t rows_of_rotary_head(const GgufFamily& family, std::string_view gguf_name,
                            const models::TransformerConfig& config);
// Whether GGUF stores the tensor's values plus 1 (see norms_add_one).
bool adds_one(const GgufFamily& family, std::string_view gguf_name);
// Whether GGUF files store the matrix as f32 even if another type is chosen: true for the weights
// of routers.
bool stays_fp32(std::string_view gguf_name);

// Returns the shortest decimal number with the same fp32 value: 1e-05, not 9.99999974737875e-06.
double shortest(double number);

// Returns the GGUF fields that describe the model. Throws ConfigError if GGUF cannot describe the
// model in this family.
GgufFields model_fields(const GgufFamily& family, const models::TransformerConfig& config);
// Returns what the tensor "rope_freqs.weight" holds: the numbers by which the head_size / 2 rotary
// frequencies are divided. Empty unless the model scales the frequencies as Llama 3 does.
std::vector<float> frequency_divisors(const models::TransformerConfig& config);

// Returns the contents of config.json, without "dtype", for the model of a GGUF file. Throws
// IoError if a field is missing, and ConfigError if a value is not supported.
nlohmann::ordered_json config_of(const io::GgufReader& file, const GgufFamily& family);

}  // namespace colossal::checkpoint
