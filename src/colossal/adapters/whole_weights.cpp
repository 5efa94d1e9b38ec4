#include "colossal/adapters/whole_weights.h"

#include "colossal/adapters/peft_folder.h"
#include "colossal/adapters/peft_names.h"

namespace colossal::adapters {

bool is_whole_weight(const io::TensorEntry& entry) {
  const bool is_named = entry.name.ends_with(".weight") || entry.name.ends_with(".bias");
  return is_named && !entry.shape.empty() && trained_module(entry.name) &&
         !copied_module(entry.name) && !adapted_module(entry.name);
}

std::map<std::string, int64_t> list_whole_weights(const std::filesystem::path& folder) {
  std::map<std::string, int64_t> modules;
  const io::SafetensorsReader file(folder / kWeightsFile);
  for (const io::TensorEntry& entry : file.entries()) {
    if (is_whole_weight(entry)) modules[*trained_module(entry.name)] = entry.shape[0];
  }
  return modules;
}

}  // namespace colossal::adapters
