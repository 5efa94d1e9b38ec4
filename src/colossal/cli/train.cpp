#include <ATen/Parallel.h>

#include <memory>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/booster/agreement.h"
#include "colossal/booster/trainer.h"
#include "colossal/cli/command.h"
#include "colossal/cli/run_arguments.h"
#include "colossal/cluster/launch_environment.h"
#include "colossal/cluster/local_launcher.h"
#include "colossal/cluster/stop_request.h"
#include "colossal/comm/world.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/plan/fit_memory.h"

namespace colossal::cli {
namespace {

// One rank of the job, to its end. Returns the exit code.
int train_rank(const Job& job, comm::World& world) {
  at::set_num_threads(job.threads);
  cluster::install_stop_handlers();
  try {
    const TrainingSummary summary = train(
        job, world, {.stop_requested = cluster::stop_requested, .fit_memory = plan::fit_memory});
    if (!summary.saved) {
      throw IoError("the last checkpoint was not saved; see above for the reason");
    }
    return 0;
  } catch (const std::exception& error) {
    world.abort(error.what());
    throw;
  }
}

int train_launched(const RunArguments& arguments, const cluster::LaunchEnvironment& launch) {
  const comm::Rendezvous& rendezvous = launch.rendezvous;
  log::set_rank_prefix(rendezvous.rank, rendezvous.size);
  if (arguments.ranks && *arguments.ranks != rendezvous.size) {
    throw ConfigError(fmt::format(
        "--ranks={}, but {} has started this process as one of {} ranks; leave --ranks out",
        *arguments.ranks, launch.launcher, rendezvous.size));
  }
  const Job job = resolve(read_config(arguments), rendezvous.size, launch.local_size);
  const auto world = comm::connect(rendezvous, job.config.parallel.backend,
                                   job.config.parallel.timeout, common_settings(job));
  return train_rank(job, *world);
}

// Every rank that fails tells its launcher why, which then names it once.
int train_launched_and_report(const RunArguments& arguments,
                              const cluster::LaunchEnvironment& launch) {
  const auto told = [&](const std::exception& error, int exit_code) {
    if (!cluster::send_error(launch, error.what())) log::error("{}", error.what());
    return exit_code;
  };
  try {
    return train_launched(arguments, launch);
  } catch (const ConfigError& error) {
    return told(error, kBadUsage);
  } catch (const CommError& error) {
    return told(error, kRankDied);
  } catch (const Error& error) {
    return told(error, kFailed);
  }
}

int train_here(const RunArguments& arguments, int ranks) {
  const GivenConfig given = read_config(arguments);
  const Job job = resolve(given, ranks, ranks);  // refuses before any rank starts
  if (ranks == 1) {
    return train_rank(job, *comm::single_world(comm::device_alone(job.config.parallel.backend)));
  }
  std::vector<std::string> command{"train", arguments.file};
  command.insert(command.end(), arguments.flags.begin(), arguments.flags.end());
  return cluster::run_local_ranks(
      {.program = "/proc/self/exe", .arguments = command, .num_ranks = ranks});
}

int train(const RunArguments& arguments) {
  memory::install_allocators();  // before there are other threads
  if (const auto launch = cluster::read_launch_environment()) {
    return train_launched_and_report(arguments, *launch);
  }
  return train_here(arguments, arguments.num_ranks());
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("train", "Train a model as a run.toml says");
  add_run_arguments(
      *command, *arguments,
      "start this many ranks here; left out under srun, mpirun, torchrun, colossal run");
  command->callback([arguments, command, &exit_code] {
    arguments->flags = command->remaining();
    exit_code = train(*arguments);
  });
}

}  // namespace colossal::cli
