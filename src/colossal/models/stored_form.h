// StoredForm: how the weights in a Hugging Face folder are stored, in particular how they are
// quantized, from its config.json. stored_form_of() in families.h returns it for a folder.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace colossal::models {

// What the names and shapes of the tensors do not show about how they are stored.
struct StoredForm {
  // quant_method: "gptq", "awq", "compressed-tensors", "fp8" or "mxfp4"; empty: not quantized.
  std::string method;
  int64_t bits = 0;             // gptq and awq only: bits of a weight
  int64_t group = 0;            // gptq and awq only: inputs per scale; 0: one scale per output
  bool zeros_less_one = false;  // gptq only: whether files store zero point - 1
  // Size of a block with one scale, for tensors with a scale for each block of the matrix (fp8,
  // compressed-tensors).
  int64_t block_rows = 128, block_columns = 128;
  bool in_out = false;  // whether linear weights that are not quantized are stored as [in, out]
};

// Converts the object quantization_config of a config.json; null: the weights are not quantized.
// Leaves in_out false: stored_form_of() sets it. Throws ConfigError, with the field and the
// supported values, if the quantization is not supported.
StoredForm read_stored_form(const nlohmann::json& quantization_config);

}  // namespace colossal::models
