// Reads from a model's Hugging Face folder how to compute: pooling and dtype. What the model was
// taught is read by text/model_folder.h. All functions throw IoError if a file exists and cannot be
// read.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

#include "colossal/serve/request.h"

namespace colossal::serve {

// Returns the pooling of an embedding model, from the file 1_Pooling/config.json that
// sentence-transformers writes. If there is no such file, returns Pooling::last for a decoder and
// Pooling::mean for an encoder. causal: whether the model is a decoder. Throws ConfigError if the
// file demands a pooling other than that of the first token, of the last token, or the mean.
Pooling default_pooling(const std::filesystem::path& folder, bool causal);

// Returns the dtype to compute in: "dtype" or "torch_dtype" of config.json if it is float32,
// float64, bfloat16 or float16; else the dtype of the first weight in the folder that is not
// quantized (fp8 counts as quantized); fp32 if there is none. Returns bf16 in place of fp16.
at::ScalarType compute_type(const std::filesystem::path& folder);

}  // namespace colossal::serve
