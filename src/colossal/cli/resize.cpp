#include <memory>

#include "colossal/cli/command.h"
#include "colossal/cli/elastic_folder.h"
#include "colossal/cli/rank_timeout.h"

namespace colossal::cli {

void add_resize(CLI::App& app, int& exit_code) {
  struct Arguments {
    std::string directory;
    int ranks = 0;
    std::string timeout = "600s";
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "resize", "Change the number of ranks of a run that was started with --min-ranks");
  command->add_option("directory", arguments->directory, "The checkpoint.directory of the run")
      ->required();
  command
      ->add_option("ranks", arguments->ranks,
                   "The new number of ranks. The run finishes its step, saves, and resumes on them")
      ->required();
  command->add_option("--timeout", arguments->timeout, "How long to wait for the step and the save")
      ->capture_default_str();
  command->callback([arguments, &exit_code] {
    request_ranks(arguments->directory, arguments->ranks,
                  std::chrono::duration_cast<std::chrono::seconds>(
                      resolve_duration("timeout", arguments->timeout)));
    exit_code = kDone;
  });
}

}  // namespace colossal::cli
