#include "colossal/training/agreement.h"

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "colossal/base/build_id.h"
#include "colossal/base/counted.h"
#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/comm/agreement.h"

namespace colossal {
namespace {

// Returns the config with values for the keys that were left to the program: the same whether a
// rank's value was given or chosen.
RunConfig resolved_config(const Job& job) {
  RunConfig config = job.config;
  config.data.sequence_length = job.sequence_length;
  config.train.micro_batch = job.micro_batch;
  config.parallel.dp = job.strategy.dp;
  config.parallel.zero = job.strategy.zero;
  config.parallel.tp_depth = job.strategy.tp_depth;
  config.parallel.tp_sequence = job.strategy.tp_sequence;
  return config;
}

std::vector<ConfigSchema::Value> values_of(RunConfig config) {
  ConfigSchema schema;
  describe(schema, config);
  return schema.values();
}

// Compares sizes only, because comparing bytes would take as long as loading them. The sizes show
// an incomplete copy.
std::string describe_weights(const std::filesystem::path& folder) {
  if (folder.empty()) return "none";
  int64_t files = 0, bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    bytes += static_cast<int64_t>(entry.file_size(error));
  }
  return fmt::format("{} of {} bytes in all", counted(files, "file"), format_count(bytes));
}

}  // namespace

// Given values come before the values that follow from them: if both differ between two ranks, the
// given value is the cause.
comm::Settings common_settings(const Job& job) {
  comm::Settings settings{{"build", build_id()}}, derived;
  const std::vector<ConfigSchema::Value> given = values_of(job.config);
  const std::vector<ConfigSchema::Value> resolved = values_of(resolved_config(job));
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].per_rank) continue;
    auto& list = given[i].text == resolved[i].text ? settings : derived;
    list.emplace_back(resolved[i].key, resolved[i].text);
  }
  settings.insert(settings.end(), derived.begin(), derived.end());
  for (const auto& [field, value] : job.model.config.items()) {
    settings.emplace_back("model." + field, value.dump());
  }
  settings.emplace_back("weights", describe_weights(job.model.weights));
  if (!job.strategy.expert_rows.empty()) {
    const std::string rows = nlohmann::json(job.strategy.expert_rows).dump();
    settings.emplace_back("hash of experts.observed",
                          std::to_string(std::hash<std::string>()(rows)));
  }
  return settings;
}

void require_agreement(const comm::Settings& here, const comm::Group& all_ranks) {
  const std::vector<std::string> texts =
      comm::gather_bytes(nlohmann::json(here).dump(), all_ranks, comm::Reason::control);
  const auto settings_of = [&](size_t rank) {
    return nlohmann::json::parse(texts[rank]).get<comm::Settings>();
  };
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    throw ConfigError(
        comm::describe_difference(settings_of(0), static_cast<int>(rank), settings_of(rank)));
  }
}

}  // namespace colossal
