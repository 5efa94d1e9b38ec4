// The flags --section.key=value of a command line, which are no options of CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "colossal/base/config_schema.h"

namespace colossal::cli {

// Returns the arguments that are no options of the command. keys: the keys that the command has.
// Throws ConfigError for an option that the command does not have (a flag without a dot); the
// message has the nearest option or key. What is wrong with flags of keys, the caller's
// ConfigSchema says.
std::vector<std::string> key_flags(const CLI::App& command, const ConfigSchema& keys);

// Like key_flags() with the keys that describe() declares for `Config`.
template <class Config>
std::vector<std::string> key_flags(const CLI::App& command) {
  Config config;
  ConfigSchema schema;
  describe(schema, config);
  return key_flags(command, schema);
}

// Throws ConfigError, with the nearest and all names, if the arguments begin with a command of
// `app`, or with a command and a subcommand, that does not exist; also if a needed subcommand is
// missing.
void refuse_unknown_command(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace colossal::cli
