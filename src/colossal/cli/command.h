// The subcommands of `colossal`. Each has one source file and one function add_...(), which main()
// calls.
#pragma once

#include <CLI/CLI.hpp>

#include "colossal/cluster/stop_request.h"

namespace colossal::cli {

// Exit codes of all subcommands. train, tune, serve and `run` also exit with 128 + signal, if a
// later stop signal insists that they end at once (cluster::StopRequests). `run` has further exit
// codes, such as those of the program that it starts (cluster::run()).
enum ExitCode {
  kDone = 0,
  // An error that has no code below: of a file, out of memory, non-finite numbers, a failed last
  // save. Also if a signal stopped train or tune during the steps of a run without checkpoints.
  kFailed = 1,
  kBadUsage = 2,  // bad usage or configuration
  kRankDied = 3,  // a rank was lost, or the communication between ranks failed
  // train and tune: a signal stopped the run before its last step, and nothing is lost: the run has
  // saved a checkpoint, or has done no step. The same command continues the run, unless it has
  // checkpoint.resume = "never".
  kStopped = cluster::kStoppedExitCode,
};

// Each function adds its subcommand to `app`. app.parse() then runs the subcommand that the user
// named. plan, convert, config and check report failure by an exception only, and leave `exit_code`
// unchanged. The other subcommands set `exit_code`, which must outlive `app`.
void add_train(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);
void add_generate(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
void add_evaluate(CLI::App& app, int& exit_code);
void add_classify(CLI::App& app, int& exit_code);
void add_convert(CLI::App& app, int& exit_code);
void add_config(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_resize(CLI::App& app, int& exit_code);

}  // namespace colossal::cli
