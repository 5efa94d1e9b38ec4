// colossal convert --quantize: a model's folder with weights in few bits.
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
  std::string type;  // empty: nothing is quantized
  std::optional<int64_t> group;
  bool symmetric = false;  // int4 without zero points
  std::string calibrate = "none";
  std::vector<std::string> text;  // patterns of files
  std::string tokenizer;          // empty: the model's
  int64_t samples = 128;
  std::optional<int64_t> sequence_length;
  std::vector<std::string> flags;  // --section.key=value
};

void add_quantize_folder(CLI::App& command, QuantizeFolderArguments& arguments);
// The help of the keys that go with it.
std::string help_of_quantizing();

// Throws ConfigError for options that do not go together, and for any where nothing is quantized.
// Otherwise lets this process compute with as many threads as the flags say, and may start it
// again: call it first.
void prepare_quantize_folder(const QuantizeFolderArguments& arguments);

// Writes `destination` from the folder `model`. files: what lies beside config.json and weights.
void quantize_folder(const QuantizeFolderArguments& arguments, const std::string& model,
                     const std::filesystem::path& destination,
                     const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace colossal::cli
