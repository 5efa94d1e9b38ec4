// GPT-2 sizes by name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "colossal/models/gpt2/config.h"

namespace colossal::models::gpt2 {

std::vector<std::string> preset_names();
std::optional<Config> preset(const std::string& name);

}  // namespace colossal::models::gpt2
