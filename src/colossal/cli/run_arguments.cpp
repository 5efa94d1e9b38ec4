#include "colossal/cli/run_arguments.h"

#include "colossal/base/error.h"

namespace colossal::cli {
namespace {

std::string config_help() {
  RunConfig config;
  ConfigSchema schema;
  describe(schema, config);
  return "Keys of run.toml with their defaults. Each is also a flag --section.key=value, which "
         "overrides the file:\n\n" +
         schema.help();
}

}  // namespace

int RunArguments::num_ranks() const {
  const int given = ranks.value_or(1);
  constexpr int kMostRanks = 1 << 20;
  if (given < 1 || given > kMostRanks) {
    throw ConfigError(fmt::format("--ranks={}: must be from 1 to {}", given, kMostRanks));
  }
  return given;
}

void add_run_arguments(CLI::App& command, RunArguments& arguments, const std::string& ranks_help) {
  command
      .add_option("run.toml", arguments.file,
                  "The TOML file that describes the run; a model and data.train are enough")
      ->required();
  command.add_option("--ranks", arguments.ranks, ranks_help);
  command.allow_extras();
  command.footer(config_help);
}

void add_elastic_arguments(CLI::App& command, RunArguments& arguments) {
  command.add_option(
      "--min-ranks", arguments.min_ranks,
      "Elastic run: if a rank dies or hangs, start again from the newest checkpoint, "
      "if need be on fewer ranks, but at least on this many. `colossal resize` "
      "changes the number of ranks while the run goes on");
  command
      .add_option("--max-restarts", arguments.max_restarts,
                  "With --min-ranks: how often to start again after failures without a new "
                  "checkpoint")
      ->capture_default_str();
}

}  // namespace colossal::cli
