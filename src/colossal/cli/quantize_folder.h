// `colossal convert --quantize`: writes a model folder with quantized weights.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace colossal::cli {

// The options that add_quantize_folder() adds.
struct QuantizeFolderArguments {
  std::string type;  // --quantize: int8, int4 or fp8; empty: no quantization
  // Input features that share a scale, 0: all; nullopt: the default of the type.
  std::optional<int64_t> group;
  bool symmetric = false;          // int4 without zero points
  std::string calibrate = "none";  // none, gptq or awq
  std::vector<std::string> text;   // --data: paths or patterns of files for calibration
  std::string tokenizer;           // empty: the tokenizer of the model
  int64_t samples = 128;           // sequences of the text that calibration reads
  // Tokens of a sequence; nullopt: the model's positions, at most 2048.
  std::optional<int64_t> sequence_length;
  std::vector<std::string> flags;  // configuration keys: --section.key=value
};

// Adds --quantize and the options that go with it. `arguments`, to which the parsed values are
// written, must outlive `command`.
void add_quantize_folder(CLI::App& command, QuantizeFolderArguments& arguments);
// Returns the help text of the configuration keys that can be given with --quantize.
std::string help_of_quantizing();

// Validates the options without reading files. If `type` is not empty, also sets the number of
// threads that this process computes with. Throws ConfigError for inconsistent options, and for
// options that need --quantize if `type` is empty.
void prepare_quantize_folder(const QuantizeFolderArguments& arguments);

// Quantizes the model in the folder `model` and writes it to the folder `destination`. files: names
// and contents of further files to write besides config.json and the weights. Call
// prepare_quantize_folder() first. arguments.type must not be empty. Throws ConfigError, IoError.
void quantize_folder(const QuantizeFolderArguments& arguments, const std::string& model,
                     const std::filesystem::path& destination,
                     const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace colossal::cli
