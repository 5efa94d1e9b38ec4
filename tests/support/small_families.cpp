#include "tests/support/small_families.h"

#include <fstream>

#include "colossal/io/json.h"
#include "colossal/models/family.h"

namespace colossal::test {
namespace {

nlohmann::json read_configs() {
  const std::filesystem::path folder =
      std::filesystem::path(COLOSSAL_TEST_SOURCE_DIR) / "tests" / "support";
  nlohmann::json all = io::read_json(folder / "families.json");
  all.update(io::read_json(folder / "encoders.json"));
  all.update(io::read_json(folder / "encoder_decoders.json"));
  all.update(io::read_json(folder / "vision.json"));
  return all;
}

// Returns the names of the families whose models read images, or of the others.
std::vector<std::string> names_of(bool read_images) {
  std::vector<std::string> names;
  for (const models::Family& family : models::families()) {
    const nlohmann::json config = small_config(family.model_type);
    const bool reads = config.contains("image_size") || config.contains("vision_config");
    if (reads == read_images) names.push_back(family.model_type);
  }
  return names;
}

}  // namespace

std::vector<std::string> family_names() {
  return names_of(/*read_images=*/false);
}

std::vector<std::string> vision_family_names() {
  return names_of(/*read_images=*/true);
}

nlohmann::json small_config(const std::string& family) {
  static const nlohmann::json configs = read_configs();
  nlohmann::json config = configs.at(family);
  config["model_type"] = family;
  const bool is_of_fairseq = family == "opt" || family == "bart";
  const bool has_factor = family == "t5" || family == "mt5";
  const bool has_towers = config.contains("vision_config");
  if (!has_factor && !has_towers) config[is_of_fairseq ? "init_std" : "initializer_range"] = 0.2;
  return config;
}

std::string write_config(const std::filesystem::path& folder, const nlohmann::json& config) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config;
  return folder.string();
}

}  // namespace colossal::test
