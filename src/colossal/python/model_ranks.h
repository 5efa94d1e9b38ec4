// The ranks that hold one LanguageModel together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "colossal/comm/world.h"
#include "colossal/job/parallel_config.h"
#include "colossal/models/model_facts.h"

namespace colossal::python {

struct ModelRanks {
  ParallelConfig config;
  Strategy strategy;
  std::unique_ptr<comm::World> world;

  bool leads() const { return world->rank() == 0; }
};

// Connects the ranks that a launcher has started. flags: --parallel.KEY=VALUE, at least one.
// settings: must be equal on all ranks. Collective. Throws ConfigError if the flags do not fit the
// model and the number of ranks, and CommError.
std::unique_ptr<ModelRanks> connect_model_ranks(const std::vector<std::string>& flags,
                                                const models::ModelFacts& facts,
                                                comm::Settings settings);

}  // namespace colossal::python
