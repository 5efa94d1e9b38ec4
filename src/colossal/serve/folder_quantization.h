// Writes a model's folder with the weights of its products in few bits, which are chosen by what
// the model computes of a text.
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
  none,  // each number to the nearest
  gptq,  // ops/gptq.h
  awq,   // ops/awq.h: factors go into norms and products before, then each number to the nearest
};

struct FolderQuantization {
  ops::Quantization how;  // of products; of those whose inputs are no whole groups, group = 0
  Calibration calibration = Calibration::none;
  // Rows of the text that the model sees, spread over it evenly; fewer where it is shorter.
  int64_t samples = 128;
  int64_t sequence_length = 2048;
  at::ScalarType type = at::kFloat;  // that activations are computed in
  // Called when so many of so many blocks are done.
  std::function<void(int64_t done, int64_t blocks)> progress = {};
};

// Writes `folder` in the form of compressed-tensors. Blocks are done one after the other, each
// after those before it are rounded: in memory are one block, its inputs' statistics, and the
// activations of all rows before it. Norms, routers, token tables and the head stay as they are.
// text: null without calibration. files: names and contents of what lies beside config.json and
// weights. Throws ConfigError if `folder` exists, for a model whose products are stored [in, out],
// one in few bits already, a text shorter than a row; IoError for bad or unwritable files.
void quantize_folder(const models::ModelSpecification& specification, const data::Corpus* text,
                     const FolderQuantization& options, const std::filesystem::path& folder,
                     const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace colossal::serve
