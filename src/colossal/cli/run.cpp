#include <memory>

#include "colossal/base/error.h"
#include "colossal/cli/command.h"
#include "colossal/cluster/host_list.h"
#include "colossal/cluster/run.h"
#include "colossal/cluster/stop_request.h"

namespace colossal::cli {

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<cluster::RunOptions>();
  CLI::App* command = app.add_subcommand(
      "run",
      "Start a program as ranks, here or on several hosts: colossal run -n 2 -- PROGRAM ARGS");
  command->add_option("-n,--ranks", options->num_ranks, "ranks on each host")->required();
  // One text: an option that takes a list would take the "--" for its end.
  command->add_option_function<std::string>(
      "--hosts",
      [options](const std::string& text) { options->hosts = cluster::expand_host_list(text); },
      "names or addresses, the first with rank 0; start the same command on each");
  command->add_option("--host-index", options->host_index,
                      "which of the hosts this is; found by its addresses where left out");
  command->add_option("--port", options->port, "on the first host, where the launchers meet")
      ->capture_default_str();
  command->add_option("program", options->command, "after --: the program and its arguments")
      ->required();
  command->callback([options, &exit_code] {
    if (options->num_ranks < 1) {
      throw ConfigError(fmt::format("-n {}: at least 1 rank", options->num_ranks));
    }
    cluster::outlive_lost_readers();
    exit_code = cluster::run(*options);
  });
}

}  // namespace colossal::cli
