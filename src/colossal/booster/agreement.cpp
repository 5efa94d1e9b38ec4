#include "colossal/booster/agreement.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "colossal/base/build_id.h"
#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/comm/agreement.h"

namespace colossal {
namespace {

// What was left to the program, as it has resolved it: the same whether a rank was told or not.
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

// A field of config.json that a run may have overridden: it counts as the model has it.
bool is_of_model(const Job& job, const std::string& key) {
  return key.starts_with("model.") && job.model.config.contains(key.substr(key.find('.') + 1));
}

// Their bytes would take as long to compare as to load: a copy that is not whole shows in the
// sizes.
std::string describe_weights(const std::filesystem::path& folder) {
  if (folder.empty()) return "none";
  int64_t files = 0, bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    bytes += static_cast<int64_t>(entry.file_size(error));
  }
  return fmt::format("{} files of {} bytes in all", format_count(files), format_count(bytes));
}

}  // namespace

comm::Settings common_settings(const Job& job) {
  comm::Settings settings{{"build", build_id()}};
  RunConfig config = resolved_config(job);
  ConfigSchema schema;
  describe(schema, config);
  for (const ConfigSchema::Value& value : schema.values()) {
    if (value.per_rank || is_of_model(job, value.key)) continue;
    settings.emplace_back(value.key, value.text);
  }
  for (const auto& [field, value] : job.model.config.items()) {
    settings.emplace_back("model." + field, value.dump());
  }
  settings.emplace_back("weights", describe_weights(job.model.weights));
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
