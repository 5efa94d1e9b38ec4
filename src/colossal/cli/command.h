// The subcommands of `colossal`, one source file each. Each add_...() adds its subcommand to `app`;
// the subcommand sets `exit_code` when it runs, so `exit_code` must outlive `app`.
#pragma once

#include <CLI/CLI.hpp>

#include "colossal/cluster/stop_request.h"

namespace colossal::cli {

enum ExitCode {
  kDone = 0,
  kFailed = 1,  // file error, failed last save, non-finite numbers, or a stop without a checkpoint
  kBadUsage = 2,  // bad usage or configuration
  kRankDied = 3,
  // train and tune: stopped by a signal before the last step; the same command resumes the run. If
  // a further signal insists (cluster::StopRequests), the exit code is 128 + signal instead.
  kStopped = cluster::kStoppedExitCode,
};

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
