// The subcommands of `colossal`, one file each. Each function adds its subcommand to `app`; when it
// is the one that was asked for, its exit code lands in `exit_code`:
//   0 done, 1 failed (a file, a last save, non-finite numbers), 2 bad usage or configuration, 3 a rank died
#pragma once

#include <CLI/CLI.hpp>

namespace colossal::cli {

void add_train(CLI::App& app, int& exit_code);
void add_generate(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);

}  // namespace colossal::cli
