// The subcommands of `colossal`, one file each. Each function adds its subcommand to `app`; when it
// is the one that was asked for, its exit code lands in `exit_code`.
#pragma once

#include <CLI/CLI.hpp>

#include "colossal/cluster/stop_request.h"

namespace colossal::cli {

enum ExitCode {
  kDone = 0,
  kFailed = 1,    // a file, a last save, non-finite numbers, a stop that kept nothing
  kBadUsage = 2,  // or configuration
  kRankDied = 3,
  // train and tune: on request, before its last step; the same command goes on. A second request
  // that insists ends it with 128 + signal.
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
