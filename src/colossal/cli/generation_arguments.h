// Options of the commands that generate text which change the model's settings of generation, such
// as --temperature.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "colossal/serve/generation_settings.h"
#include "colossal/text/model_folder.h"

namespace colossal::cli {

// The values of the options.
struct GenerationArguments {
  std::string override_config;  // --override-generation-config: a JSON object; empty: not given
  // What the other options that are given change in the settings, in the order of the command line.
  std::vector<std::function<void(serve::GenerationSettings&)>> changes{};
  bool samples = false;   // an option of sampling is given, such as --top-k
  int64_t num_beams = 0;  // --num-beams; 0: not given
};

// Adds --override-generation-config.
void add_override_option(CLI::App& command, GenerationArguments& arguments);
// Adds all options of sampling and of beam search, --max-new-tokens, --stop, and
// --override-generation-config.
void add_generation_options(CLI::App& command, GenerationArguments& arguments);

// Returns the settings of the folder, changed by the options. Logs the folder's settings, and those
// that are not supported. vocabulary: number of tokens of the model. Throws ConfigError
// for invalid settings.
serve::GenerationSettings resolve_generation(const GenerationArguments& arguments,
                                             const text::ModelFolder& folder, int64_t vocabulary);

}  // namespace colossal::cli
