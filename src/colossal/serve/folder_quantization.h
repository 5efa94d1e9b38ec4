// Post-training quantization of a model folder: quantizes the weights of linear layers, optionally
// calibrated on a text (GPTQ, AWQ).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/data/corpus.h"
#include "colossal/models/families.h"
#include "colossal/ops/quantized_matrix.h"

namespace colossal::serve {

enum class Calibration {
  none,  // round to nearest
  gptq,  // ops/gptq.h
  awq,   // ops/awq.h: scaling, then round to nearest
};

struct FolderQuantization {
  // How the weights of linear layers are quantized. A layer whose input size is not a multiple of
  // how.group gets one scale per output (group 0).
  ops::Quantization how;
  Calibration calibration = Calibration::none;
  // Number of calibration rows of sequence_length tokens, spread evenly over the text; fewer if the
  // text is too short.
  int64_t samples = 128;
  int64_t sequence_length = 2048;
  at::ScalarType type = at::kFloat;  // dtype of activations
  // Called after each block, with the number of blocks done and the number of all blocks.
  std::function<void(int64_t done, int64_t blocks)> progress = {};
};

// Writes the quantized model to `folder` in the compressed-tensors format, or in GPTQ's format if
// the model stores linear weights as [in, out] (checkpoint/packed_format.h). Quantizes block after
// block; the inputs that calibrate a block (GPTQ, AWQ) are the outputs of the quantized blocks
// before it. Memory holds one block, the statistics of its inputs, and the activations of all
// calibration rows at the start of the block. Norms, routers, token tables and the head are not
// quantized.
//
// text: the calibration text; null without calibration. files: name and contents of each further
// file of the folder, besides config.json and the weights.
//
// Throws ConfigError if `folder` exists, if the format cannot hold the weights, if the model stores
// experts as one tensor [experts, in, out], if the model is already quantized, or if the text is
// shorter than one row; IoError for corrupt or unwritable files.
void quantize_folder(const models::ModelSpecification& specification, const data::Corpus* text,
                     const FolderQuantization& options, const std::filesystem::path& folder,
                     const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace colossal::serve
