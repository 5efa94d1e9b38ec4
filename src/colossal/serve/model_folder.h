// Reads generation defaults of a model from its Hugging Face folder.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "colossal/serve/request.h"
#include "colossal/serve/sampling.h"
#include "colossal/text/tokenizer.h"

namespace colossal::serve {

// Returns the end-of-sequence tokens: "eos_token_id" (a number or a list) of
// generation_config.json, else of config.json, else the tokenizer's end token. Throws ConfigError
// if "eos_token_id" is neither a token number nor a list of token numbers.
std::vector<int32_t> end_tokens(const std::filesystem::path& folder,
                                const text::Tokenizer& tokenizer);

// Returns sampling options with temperature, top_k, top_p, min_p, typical_p and repetition_penalty
// of generation_config.json. Fields that the file lacks, and all other options, have the defaults
// of SamplingOptions. Throws ConfigError if one of these fields is not a number.
SamplingOptions default_sampling(const std::filesystem::path& folder);

// Returns the pooling (mean or last) of sentence-transformers' 1_Pooling/config.json; Pooling::last
// if there is no such file. Throws ConfigError for any other pooling.
Pooling default_pooling(const std::filesystem::path& folder);

// Returns the dtype to compute in: "dtype" or "torch_dtype" of config.json, else the dtype of the
// first floating-point weight in the folder; bf16 in place of fp16. Throws ConfigError for an
// unsupported dtype.
at::ScalarType compute_type(const std::filesystem::path& folder);

}  // namespace colossal::serve
