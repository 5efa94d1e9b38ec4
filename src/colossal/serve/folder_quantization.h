// Post-training quantization of a Hugging Face folder: writes a new folder whose linear layers have
// quantized weights, optionally calibrated on a text (GPTQ, AWQ). Used by `colossal
// convert --quantize`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/data/corpus.h"
#include "colossal/models/families.h"
#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::serve {

// How quantized values are chosen.
enum class Calibration {
  none,  // each weight is rounded to the nearest quantized value
  gptq,  // GPTQ (ops/product/gptq.h)
  awq,   // AWQ (ops/product/awq.h): weights are scaled, then rounded to nearest
};

// Options of quantize_folder().
struct FolderQuantization {
  // Format of the quantized weights. A layer whose number of inputs is not a multiple of how.group
  // has one scale per output instead (group 0).
  ops::Quantization how;
  Calibration calibration = Calibration::none;
  // Maximum number of calibration rows, which are spread evenly over the text. There are fewer if
  // the text has fewer than samples * sequence_length tokens.
  int64_t samples = 128;
  int64_t sequence_length = 2048;    // tokens of a calibration row
  at::ScalarType type = at::kFloat;  // dtype of weights and activations during calibration
  // Called after each block of the model, unless empty, with the number of blocks done and the
  // number of all blocks.
  std::function<void(int64_t done, int64_t blocks)> progress = {};
};

// Writes the quantized model to `folder`, which it creates, in the compressed-tensors format, or in
// GPTQ's format if the model stores linear weights as [in, out] (checkpoint/packed_format.h).
// Quantizes one block after the other. With GPTQ and AWQ, the calibration inputs of a block are the
// outputs of the blocks before it, with their quantized weights. Memory holds the weights of one
// block, the statistics of its inputs, and the activations of all calibration rows before the
// block. Norms, routers, gates of shared experts, embeddings and the head are not quantized.
//
// specification: the model to quantize; its `weights` is the folder to read. text: the calibration
// text; null if options.calibration is `none`. files: names and contents of further files to write,
// e.g. of the tokenizer, besides config.json and the weights.
//
// Throws ConfigError if `folder` exists, if the format cannot hold the weights, if the model stores
// experts as one tensor [experts, in, out], if the model is already quantized, or if the text is
// shorter than one row; IoError for corrupt or unwritable files.
void quantize_folder(const models::ModelSpecification& specification, const data::Corpus* text,
                     const FolderQuantization& options, const std::filesystem::path& folder,
                     const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace colossal::serve
