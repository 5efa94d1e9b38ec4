// colossal convert --quantize: writes a model folder with quantized weights.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace colossal::cli {

struct QuantizeFolderArguments {
  std::string type;              // empty: no quantization
  std::optional<int64_t> group;  // inputs per scale; nullopt: the default of the type
  bool symmetric = false;        // int4 without zero points
  std::string calibrate = "none";
  std::vector<std::string> text;  // file patterns
  std::string tokenizer;          // empty: the tokenizer of the model
  int64_t samples = 128;
  std::optional<int64_t> sequence_length;
  std::vector<std::string> flags;  // --section.key=value
};

// Adds --quantize and the options that go with it.
void add_quantize_folder(CLI::App& command, QuantizeFolderArguments& arguments);
// Returns the help text of the configuration keys that can be given with --quantize.
std::string help_of_quantizing();

// Validates the options without reading a file. If `type` is not empty, sets the number of compute
// threads, too. Throws ConfigError for inconsistent options, and for options that need --quantize
// if `type` is empty.
void prepare_quantize_folder(const QuantizeFolderArguments& arguments);

// Writes the quantized model of the folder `model` to the folder `destination`. files: name and
// contents of each further file to write, besides config.json and the weights.
void quantize_folder(const QuantizeFolderArguments& arguments, const std::string& model,
                     const std::filesystem::path& destination,
                     const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace colossal::cli
