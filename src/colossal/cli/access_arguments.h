// The options of `serve` that say who may use the server.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "colossal/server/access.h"

namespace colossal::cli {

// The values of the options.
struct AccessArguments {
  std::optional<std::string> key, key_file, admin_key, admin_key_file;
  std::vector<std::string> allowed_hosts, allowed_origins;
};

// Adds the options to a command.
void add_access_options(CLI::App& command, AccessArguments& arguments);

// Reads the keys from the options, their files, or the environment variables COLOSSAL_API_KEY and
// COLOSSAL_ADMIN_KEY. Throws ConfigError for an empty key, a key that a header cannot have, a key
// that is given twice, and hosts and origins that no request can have; IoError if a file cannot be
// read.
server::AccessOptions resolve_access(const AccessArguments& arguments);

}  // namespace colossal::cli
