#include "colossal/cli/training_run.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <sstream>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/machine.h"
#include "colossal/base/process_limits.h"
#include "colossal/base/thread_stacks.h"
#include "colossal/base/units.h"
#include "colossal/cli/command.h"
#include "colossal/cli/elastic_folder.h"
#include "colossal/cluster/elastic_launcher.h"
#include "colossal/cluster/launch_environment.h"
#include "colossal/cluster/local_launcher.h"
#include "colossal/cluster/signal_queue.h"
#include "colossal/cluster/stop_listener.h"
#include "colossal/comm/world.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/plan/decided_run.h"
#include "colossal/plan/plan_text.h"
#include "colossal/run/strategy_choice.h"
#include "colossal/training/agreement.h"
#include "colossal/training/run_monitor.h"
#include "colossal/training/trainer.h"
#include "colossal/tune/rollout/prompt_completions.h"

namespace colossal::cli {
namespace {

std::string answer_to_stop(const Job& job) {
  return job.config.checkpoint.directory.empty()
             ? "finishing the current step; nothing will be saved, as checkpoint.directory is empty"
             : "finishing the current step, then saving a checkpoint; interrupt again to end the "
               "run at once without saving";
}

// Returns the folder for checkpoints in memory; empty: the run makes none.
std::string memory_folder_of(const Job& job, const cluster::LaunchEnvironment* launch) {
  if (job.config.checkpoint.memory_every == 0) return "";
  if (launch && !launch->memory_folder.empty()) return launch->memory_folder;
  throw ConfigError(fmt::format(
      "checkpoint.memory_every = {}: checkpoints in memory are for elastic runs on one host, whose "
      "launcher outlives the ranks; start the run with --min-ranks, or leave the key out",
      job.config.checkpoint.memory_every));
}

TrainingHooks make_hooks(const Job& job, cluster::StopListener& stop,
                         const cluster::LaunchEnvironment* launch) {
  return {.during_set_up =
              [&stop] {
                if (stop.requested()) throw cluster::StoppedInSetUp();
              },
          .set_up_done = [&] { stop.end_set_up(answer_to_stop(job)); },
          .stop_requested = [&stop] { return stop.requested(); },
          .saved =
              [launch] {
                if (launch) cluster::send_progress(*launch);
              },
          .complete_prompts = tune::complete_prompts};
}

// Returns the exit code of a run that was completed or stopped. elastic: whether a launcher decides
// how the run continues.
int conclude(const Job& job, const TrainingSummary& summary, bool elastic) {
  const CheckpointConfig& checkpoint = job.config.checkpoint;
  if (!summary.saved) {
    throw IoError("the last checkpoint was not saved; see above for the reason");
  }
  if (!summary.stopped) return kDone;
  const std::string stopped =
      fmt::format("stopped after step {} of {}", format_count(summary.steps),
                  format_count(job.config.train.steps));
  if (checkpoint.directory.empty()) {
    throw Error(stopped + "; nothing was saved, as checkpoint.directory is empty");
  }
  if (elastic) {
    log::info("{}", stopped);
  } else {
    log::info("{}; to continue the run, use the same command{}", stopped,
              checkpoint.resume == "never" ? " with checkpoint.resume = \"auto\"" : "");
  }
  return kStopped;
}

// Checks the limits before the job starts, so that the error names the limit that is too low. The
// numbers were counted while a checkpoint was saved: files and sockets in the process that serves
// the store, which has most, and threads (require_threads).
void require_open_files(int ranks, const std::string& beside) {
  constexpr int kFiles = 64, kFilesPerRank = 2;
  const int times = beside.empty() ? 1 : 2;
  machine::require_open_files(
      kFiles + times * kFilesPerRank * ranks,
      fmt::format("{} ranks{}", ranks, beside.empty() ? "" : " with " + beside));
}

void require_threads(const Job& job, int local_ranks, const std::string& beside) {
  constexpr int kOtherThreads = 12;
  machine::require_threads(job.threads, kOtherThreads, beside);
  const int cores = machine::available_cores();
  if (job.threads > 1 && job.threads * local_ranks > cores) {
    log::info(
        "train.threads = {}: {} threads in total share {} cores, which is slower than "
        "train.threads = {}",
        job.threads, job.threads * local_ranks, cores, std::max(1, cores / local_ranks));
  }
}

// Runs one rank of the job to its end. launch: how a launcher started this rank; null: none did.
// Returns the exit code.
int train_rank(const TrainingRun& run, const Job& job, comm::World& world,
               cluster::StopListener& stop, const cluster::LaunchEnvironment* launch) {
  at::set_num_threads(job.threads);
  try {
    const ParallelContext context(world, job.strategy);
    if (context.rank() == 0) {
      for (const std::string& warning : job.warnings) log::warn("{}", warning);
    }
    plan::DecidedRun decided =
        plan::decide(job, context, run.fit_memory, memory_folder_of(job, launch));
    const TrainingHooks hooks = make_hooks(decided.job, stop, launch);
    return conclude(decided.job, train(decided.job, context, decided.folders, hooks, run.make_task),
                    launch && launch->elastic);
  } catch (const std::exception& error) {
    world.abort(error.what());
    throw;
  }
}

// Calls `train`. If set-up was asked to stop, a failure counts as stopped: no step was done, so
// nothing is lost.
template <class Train>
int unless_stopped_in_set_up(const cluster::StopListener& stop, Train train) {
  try {
    return train();
  } catch (const std::exception&) {
    if (!stop.requested_in_set_up()) throw;
    return kStopped;
  }
}

// Returns the flags of the layout that a search chooses.
std::vector<std::string> choose_strategy(const TrainingRun& run, int ranks, int local_ranks) {
  const RunConfig& config = run.given.config;
  const plan::ClusterSpecification cluster = cluster_of(config);
  const plan::StrategySearch search = search_strategies(
      run.given, machine_of(config, ranks, local_ranks), cluster, run.dry_run_job);
  log::info("{}", plan::describe(search));
  return flags_of(search);
}

comm::Group all_ranks_of(comm::World& world) {
  std::vector<int> ranks(world.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return world.host_group(kSetUpAxis, ranks);
}

// Returns the run with the layout that rank 0 chooses. Collective.
TrainingRun read_with_choice_of_first(const RunArguments& arguments, const ReadRun& read,
                                      const TrainingRun& run, comm::World& world, int local_ranks) {
  std::string flags;
  if (world.rank() == 0) {
    flags = fmt::format("{}", fmt::join(choose_strategy(run, world.size(), local_ranks), "\n"));
  }
  flags = comm::gather_bytes(flags, all_ranks_of(world), comm::Reason::control).front();
  RunArguments chosen = arguments;
  std::istringstream lines(flags);
  for (std::string flag; std::getline(lines, flag);) chosen.flags.push_back(flag);
  return read(chosen);
}

int train_launched(const RunArguments& arguments, const ReadRun& read,
                   const cluster::LaunchEnvironment& launch, cluster::StopListener& stop) {
  const comm::Rendezvous& rendezvous = launch.rendezvous;
  TrainingRun run = read(arguments);
  std::unique_ptr<comm::World> world;
  const bool chooses = is_undecided(run.given.config);
  const auto connect = [&](const comm::Settings& settings) {
    const ParallelConfig& parallel = run.given.config.parallel;
    // One rank needs no address to meet at, and may have none.
    if (rendezvous.size == 1) return comm::single_world(comm::device_alone(parallel.world));
    return comm::connect(rendezvous, parallel.world, parallel.timeout, settings);
  };
  if (chooses) {
    // The ranks compare their settings below, when they know the layout.
    require_open_files(rendezvous.size, "");
    world = connect(run.settings);
    run = read_with_choice_of_first(arguments, read, run, *world, launch.local_size);
  }
  const Job job = resolve(run.given, rendezvous.size, launch.local_size);
  const std::string beside = run.concurrent_work(job);
  require_open_files(rendezvous.size, beside);
  require_threads(job, launch.local_size, beside);
  comm::Settings settings = common_settings(job);
  settings.insert(settings.end(), run.settings.begin(), run.settings.end());
  if (chooses) {
    require_agreement(settings, all_ranks_of(*world));
  } else {
    world = connect(settings);
  }
  return train_rank(run, job, *world, stop, &launch);
}

// A failing rank sends its error to the launcher, which reports it once for all ranks.
int train_launched_and_report(const RunArguments& arguments, const ReadRun& read,
                              const cluster::LaunchEnvironment& launch) {
  log::set_rank_prefix(launch.rendezvous.rank, launch.rendezvous.size);
  write_stacks_on_sigquit(fmt::format("rank {}", launch.rendezvous.rank));
  const auto told = [&](const std::exception& error, int exit_code) {
    if (!cluster::send_error(launch, error.what())) log::error("{}", error.what());
    return exit_code;
  };
  cluster::StopListener stop;
  cluster::stop_with_launcher(launch);
  try {
    return unless_stopped_in_set_up(stop,
                                    [&] { return train_launched(arguments, read, launch, stop); });
  } catch (const ConfigError& error) {
    return told(error, kBadUsage);
  } catch (const CommError& error) {
    return told(error, kRankDied);
  } catch (const Error& error) {
    return told(error, kFailed);
  }
}

// A run on this machine, checked before any rank starts.
struct LocalRun {
  TrainingRun run;
  Job job;
  std::vector<std::string> command;  // the arguments of this program with which a rank runs it
  std::string beside;                // TrainingRun::concurrent_work
};

// Throws ConfigError if the run does not work on this number of ranks.
LocalRun read_local_run(const RunArguments& given, const ReadRun& read, int ranks) {
  RunArguments arguments = given;
  TrainingRun run = read(arguments);
  if (is_undecided(run.given.config)) {
    std::ranges::copy(choose_strategy(run, ranks, ranks), std::back_inserter(arguments.flags));
    run = read(arguments);
  }
  Job job = resolve(run.given, ranks, ranks);
  std::string beside = run.concurrent_work(job);
  require_open_files(ranks, beside);
  std::vector<std::string> command = run.words;
  command.push_back(arguments.file);
  command.insert(command.end(), arguments.flags.begin(), arguments.flags.end());
  return {std::move(run), std::move(job), std::move(command), std::move(beside)};
}

int train_elastic(const RunArguments& given, const ReadRun& read, int ranks) {
  const CheckpointConfig checkpoint = read(given).given.config.checkpoint;
  if (checkpoint.directory.empty()) {
    throw ConfigError(
        "--min-ranks needs checkpoint.directory: an elastic run resumes from its checkpoints");
  }
  if (checkpoint.every == 0 && checkpoint.memory_every == 0) {
    log::warn(
        "checkpoint.every and checkpoint.memory_every are 0: after a failure, all steps since the "
        "last start are repeated");
  }
  ElasticFolder folder(checkpoint.directory);
  return cluster::run_elastic_ranks(
      {.program = "/proc/self/exe", .num_ranks = ranks},
      {.min_ranks = *given.min_ranks,
       .max_restarts = given.max_restarts,
       .arguments =
           [&, is_first = true](int count) mutable {
             const LocalRun local = read_local_run(given, read, count);
             // At the first start, rank 0 does so.
             if (!std::exchange(is_first, false)) local.run.fit_memory(local.job);
             return local.command;
           },
       .restart_arguments = {"--checkpoint.resume=auto"},
       .progress = [&](const std::string& memory) { return folder.newest_step(memory); },
       .requested = [&] { return folder.take_request(); },
       .before_end = [&](const std::string& memory) { folder.keep_newest(memory); },
       .report = [&](int count, const std::string& error) { folder.write_state(count, error); }});
}

int train_here(const RunArguments& given, const ReadRun& read, int ranks) {
  if (given.min_ranks) return train_elastic(given, read, ranks);
  // Dry runs and the search for a layout start threads, which must not take the signals of ranks
  // that end.
  const LocalRun local =
      cluster::call_without_signals([&] { return read_local_run(given, read, ranks); });
  if (ranks == 1) {
    cluster::StopListener stop;
    require_threads(local.job, ranks, local.beside);
    const auto world = comm::single_world(comm::device_alone(local.job.config.parallel.world));
    return unless_stopped_in_set_up(
        stop, [&] { return train_rank(local.run, local.job, *world, stop, nullptr); });
  }
  return cluster::run_local_ranks(
      {.program = "/proc/self/exe", .arguments = local.command, .num_ranks = ranks});
}

}  // namespace

int run_training(const RunArguments& arguments, const ReadRun& read) {
  cluster::ignore_sigpipe();
  memory::install_allocators();  // before other threads start
  if (const auto launch = cluster::read_launch_environment(arguments.ranks)) {
    if (arguments.min_ranks) {
      throw ConfigError(
          "--min-ranks is for ranks that this command starts; `colossal run` has "
          "--min-ranks and --min-hosts of its own");
    }
    return train_launched_and_report(arguments, read, *launch);
  }
  return train_here(arguments, read, arguments.num_ranks());
}

}  // namespace colossal::cli
