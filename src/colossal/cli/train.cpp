#include <memory>

#include "colossal/cli/command.h"
#include "colossal/cli/key_flags.h"
#include "colossal/cli/training_run.h"

namespace colossal::cli {

void add_train(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("train",
                                         "Train a model as described by a TOML file, on this "
                                         "machine or as one rank of a launcher's job");
  add_run_arguments(*command, *arguments,
                    "Start this many ranks on this machine [1]. Leave it out if srun, mpirun, "
                    "torchrun or colossal run starts the ranks");
  add_elastic_arguments(*command, *arguments);
  command->callback([arguments, command, &exit_code] {
    arguments->flags = key_flags<RunConfig>(*command);
    exit_code = run_training(*arguments, [](const RunArguments& given) {
      return TrainingRun{read_training(given), {"train"}, given};
    });
  });
}

}  // namespace colossal::cli
