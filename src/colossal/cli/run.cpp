#include <memory>

#include "colossal/base/error.h"
#include "colossal/cli/command.h"
#include "colossal/cluster/host_list.h"
#include "colossal/cluster/run.h"
#include "colossal/cluster/stop_request.h"

namespace colossal::cli {

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<cluster::RunOptions>();
  CLI::App* command = app.add_subcommand("run",
                                         "Start a program as several ranks, on this machine or on "
                                         "several hosts: colossal run -n 2 -- PROGRAM ARGS");
  command->add_option("-n,--ranks", options->num_ranks, "How many ranks to start on each host")
      ->required();
  // One string: an option for a list would take the "--" as the list's end.
  command->add_option_function<std::string>(
      "--hosts",
      [options](const std::string& text) { options->hosts = cluster::expand_host_list(text); },
      "Names or addresses of the hosts; the first has rank 0. Start the same command on each");
  command->add_option(
      "--host-index", options->host_index,
      "This host's position in the list, from 0. Left out: found from this machine's addresses");
  command
      ->add_option("--port", options->port,
                   "The port on the first host that the launchers connect to")
      ->capture_default_str();
  command->add_option("--min-ranks", options->min_ranks,
                      "Elastic job on this machine: if a rank dies, start again, if need be on "
                      "fewer ranks, but at least on this many");
  command->add_option("--min-hosts", options->min_hosts,
                      "Elastic job: go on if hosts are lost, and when they come back, with at "
                      "least this many hosts. SIGTERM makes a host other than the first leave");
  command
      ->add_option("--max-restarts", options->max_restarts,
                   "How often an elastic job may start again after failures without progress")
      ->capture_default_str();
  command->add_option("program", options->command, "The program and its arguments, after --")
      ->required();
  command->callback([options, &exit_code] {
    if (options->num_ranks < 1) {
      throw ConfigError(fmt::format("-n {}: must be at least 1 rank", options->num_ranks));
    }
    cluster::ignore_sigpipe();
    exit_code = cluster::run(*options);
  });
}

}  // namespace colossal::cli
