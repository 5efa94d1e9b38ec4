// Llama sizes by name, as published.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "colossal/models/llama/config.h"

namespace colossal::models::llama {

std::vector<std::string> preset_names();
std::optional<Config> preset(const std::string& name);

}  // namespace colossal::models::llama
