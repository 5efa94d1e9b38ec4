#include "colossal/python/model_ranks.h"

#include "colossal/base/error.h"
#include "colossal/cluster/launch_environment.h"

namespace colossal::python {

std::unique_ptr<ModelRanks> connect_model_ranks(const std::vector<std::string>& flags,
                                                const models::ModelFacts& facts,
                                                comm::Settings settings) {
  auto ranks = std::make_unique<ModelRanks>();
  ConfigSchema schema;
  describe_model_ranks(schema, ranks->config);
  for (const std::string& flag : flags) schema.set_flag(flag);
  const auto launch = cluster::read_launch_environment();
  const int size = launch ? launch->rendezvous.size : 1;
  try {
    ranks->strategy = resolve_model_ranks(ranks->config, facts, size);
  } catch (const ConfigError& error) {
    if (launch) throw;
    throw ConfigError(
        fmt::format("{}; start the ranks with torchrun or `colossal run`", error.what()));
  }
  for (const ConfigSchema::Value& value : schema.values()) {
    if (!value.per_rank) settings.emplace_back(value.key, value.text);
  }
  if (size == 1) {
    ranks->world = comm::single_world(comm::device_alone(ranks->config.world));
    return ranks;
  }
  static int models = 0;  // of this process; the ranks make the same ones
  comm::Rendezvous meeting = launch->rendezvous;
  meeting.prefix += fmt::format("colossal-model-{}/", ++models);
  ranks->world = comm::connect(meeting, ranks->config.world, ranks->config.timeout, settings);
  return ranks;
}

}  // namespace colossal::python
