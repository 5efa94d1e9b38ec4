#include "colossal/python/training.h"

#include <ATen/Parallel.h>

#include <memory>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/cluster/launch_environment.h"
#include "colossal/comm/world.h"
#include "colossal/io/checkpoint_directory.h"
#include "colossal/plan/decided_run.h"
#include "colossal/run/strategy_choice.h"
#include "colossal/training/agreement.h"
#include "colossal/tune/rollout/prompt_completions.h"

namespace colossal::python {
namespace {

// Computes with this many threads while it exists.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) { at::set_num_threads(threads); }
  ~ThreadCount() { at::set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  const int before_ = at::get_num_threads();
};

void refuse_what_needs_the_command(const RunConfig& config) {
  if (is_undecided(config)) {
    throw ConfigError(
        "parallel.strategy = \"auto\": only the command searches a layout before it trains; give "
        "the keys that colossal.plan() chooses, such as parallel.tp");
  }
  if (config.checkpoint.memory_every > 0) {
    throw ConfigError(
        fmt::format("checkpoint.memory_every = {}: checkpoints in memory are for elastic runs of "
                    "the command; leave the key out",
                    config.checkpoint.memory_every));
  }
}

std::unique_ptr<comm::World> connect_ranks(const cluster::LaunchEnvironment* launch, const Job& job,
                                           const comm::Settings& settings) {
  const ParallelConfig& parallel = job.config.parallel;
  if (!launch) return comm::single_world(comm::device_alone(parallel.world));
  static int runs = 0;  // of this process; the ranks make the same ones
  comm::Rendezvous meeting = launch->rendezvous;
  meeting.prefix += fmt::format("colossal-train-{}/", ++runs);
  return comm::connect(meeting, parallel.world, parallel.timeout, settings);
}

std::string newest_checkpoint(const std::string& directory) {
  if (directory.empty()) return "";
  const std::vector<io::Checkpoint> found = io::list_checkpoints(directory);
  return found.empty() ? "" : found.back().path.string();
}

TrainingHooks hooks_of(const RunCallbacks& callbacks, bool& stops) {
  return {
      .during_set_up =
          [&callbacks] {
            if (callbacks.interrupted()) throw InterruptedSetUp();
          },
      .stop_requested = [&callbacks, &stops] { return stops = stops || callbacks.interrupted(); },
      .stepped =
          [&callbacks, &stops](const StepResult& result, const auto& validation_loss) {
            if (callbacks.stepped(result, validation_loss)) stops = true;
          },
      .complete_prompts = tune::complete_prompts};
}

}  // namespace

FinishedRun train_in_process(const GivenRun& run, const RunCallbacks& callbacks) {
  refuse_what_needs_the_command(run.given.config);
  const auto launched = cluster::read_launch_environment();
  const bool alone = !launched || launched->rendezvous.size == 1;
  const cluster::LaunchEnvironment* launch = alone ? nullptr : &*launched;
  const Job job = launch ? resolve(run.given, launch->rendezvous.size, launch->local_size)
                         : resolve(run.given, 1, 1);
  comm::Settings settings = common_settings(job);
  settings.insert(settings.end(), run.settings.begin(), run.settings.end());
  if (launch) log::set_rank_prefix(launch->rendezvous.rank, launch->rendezvous.size);
  const auto world = connect_ranks(launch, job, settings);
  const ThreadCount threads(job.threads);
  try {
    const ParallelContext context(*world, job.strategy);
    if (context.rank() == 0) {
      for (const std::string& warning : job.warnings) log::warn("{}", warning);
    }
    plan::DecidedRun decided = plan::decide(job, context, run.fit_memory);
    bool stops = false;
    const TrainingSummary summary =
        train(decided.job, context, decided.folders, hooks_of(callbacks, stops), run.make_task);
    if (!summary.saved) {
      throw IoError("the last checkpoint was not saved; see above for the reason");
    }
    return {summary, newest_checkpoint(decided.job.config.checkpoint.directory),
            decided.job.config.log.directory};
  } catch (const std::exception& error) {
    world->abort(error.what());
    throw;
  }
}

}  // namespace colossal::python
