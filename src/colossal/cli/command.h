// The subcommands of `colossal`. Each has one source file and one function add_...(), which main()
// calls.
#pragma once

#include <CLI/CLI.hpp>

#include "colossal/cluster/stop_request.h"

namespace colossal::cli {

// Exit codes of all subcommands.
enum ExitCode {
  kDone = 0,
  // File error, failed last save, non-finite numbers, or a stop without a checkpoint.
  kFailed = 1,
  kBadUsage = 2,  // bad usage or configuration
  kRankDied = 3,  // a rank was lost, or the communication between ranks failed
  // train and tune: a signal stopped the run before its last step. The same command resumes the
  // run. If a later signal insists (cluster::StopRequests), the exit code is 128 + signal instead.
  kStopped = cluster::kStoppedExitCode,
};

// Each function adds its subcommand to `app`. plan, convert, config and check report failure by an
// exception only, and leave `exit_code` unchanged. The other subcommands set `exit_code` when they
// run, so that it must outlive `app`.
void add_train(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);
void add_generate(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
void add_evaluate(CLI::App& app, int& exit_code);
void add_convert(CLI::App& app, int& exit_code);
void add_config(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);

}  // namespace colossal::cli
