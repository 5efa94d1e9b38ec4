#include <memory>

#include "colossal/cli/command.h"
#include "colossal/cli/key_flags.h"
#include "colossal/cli/training_run.h"
#include "colossal/tune/tuning_method.h"

namespace colossal::cli {

void add_tune(CLI::App& app, int& exit_code) {
  CLI::App* tune_command =
      app.add_subcommand("tune", "Fine-tune or align a model with one of these methods");
  tune_command->require_subcommand(1);
  for (const tune::TuningMethod* const method : tune::all_methods()) {
    auto arguments = std::make_shared<RunArguments>();
    CLI::App* command = tune_command->add_subcommand(method->name(), method->description());
    add_run_arguments(*command, *arguments,
                      "Start this many ranks on this machine [1]. Leave it out if srun, mpirun, "
                      "torchrun or colossal run starts the ranks");
    add_elastic_arguments(*command, *arguments);
    command->footer([method] {
      const TuneSchema keys(*method);
      return "Keys of run.toml with their defaults for this method. Each is also a flag "
             "--section.key=value, which overrides the file:\n\n" +
             keys.schema.help();
    });
    command->callback([arguments, command, method, &exit_code] {
      arguments->flags = key_flags(*command, TuneSchema(*method).schema);
      exit_code = run_training(*arguments, [method](const RunArguments& given) {
        return TrainingRun{read_tuning(*method, given), {"tune", method->name()}, given};
      });
    });
  }
}

}  // namespace colossal::cli
