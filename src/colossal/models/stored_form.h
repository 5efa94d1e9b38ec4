// How the weights of a folder are stored, where that is not number by number.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace colossal::models {

// What quantization_config of a config.json says that the names and shapes of tensors do not.
struct StoredForm {
  std::string method;           // quant_method; empty: numbers
  int64_t bits = 0;             // of gptq and awq
  int64_t group = 0;            // the same: inputs that share a scale; 0: all of an output
  bool zeros_less_one = false;  // gptq: files hold each zero less one
  int64_t block_rows = 128, block_columns = 128;  // that share a scale, where blocks do
  bool in_out = false;  // products' weights are [inputs, outputs] where files hold numbers
};

// Reads a quantization_config; null: numbers. Throws ConfigError for a form that is not read,
// naming the field and what is read.
StoredForm read_stored_form(const nlohmann::json& quantization_config);

}  // namespace colossal::models
