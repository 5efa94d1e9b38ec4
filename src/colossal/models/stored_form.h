// How the weights in a model folder are quantized.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace colossal::models {

// What quantization_config in config.json says that the names and shapes of the tensors do not
// show.
struct StoredForm {
  std::string method;           // quant_method; empty: not quantized
  int64_t bits = 0;             // gptq and awq only
  int64_t group = 0;            // gptq and awq only: inputs per scale; 0: one scale per output
  bool zeros_less_one = false;  // gptq only: files store zero point - 1
  int64_t block_rows = 128, block_columns = 128;  // if each block has a scale: block size
  bool in_out = false;  // files store linear weights that are not quantized as [in, out]
};

// Reads a quantization_config; null: not quantized. Leaves in_out false. Throws ConfigError naming
// the field and the supported values if the quantization is not supported.
StoredForm read_stored_form(const nlohmann::json& quantization_config);

}  // namespace colossal::models
