// The program colossal: its subcommands, and the messages and exit codes of errors (command.h).
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "colossal/base/build_id.h"
#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/version.h"
#include "colossal/cli/command.h"
#include "colossal/cli/held_signals.h"
#include "colossal/cli/key_flags.h"

namespace colossal::cli {
namespace {

// Splits "--name=" of the subcommand's options into "--name" and an empty argument: CLI11 would
// take the next argument as the value. Arguments after "--" belong to another program and stay as
// they are.
std::vector<std::string> with_empty_values(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto commands = app.get_subcommands([&](const CLI::App* command) {
    return !arguments.empty() && command->check_name(arguments[0]);
  });
  if (commands.empty()) return arguments;
  std::vector<std::string> separated;
  for (auto it = arguments.begin(); it != arguments.end(); ++it) {
    if (*it == "--") return separated.insert(separated.end(), it, arguments.end()), separated;
    const std::string name = it->substr(0, it->find('='));
    const CLI::Option* option = commands[0]->get_option_no_throw(name);
    if (*it == name + "=" && option && option->get_items_expected_max() > 0) {
      separated.insert(separated.end(), {name, ""});
    } else {
      separated.push_back(*it);
    }
  }
  return separated;
}

// Only options for text accept an empty value. CLI11 would convert it to the number 0.
void refuse_empty_numbers(CLI::App& app) {
  const CLI::Validator has_value(
      [](const std::string& value) { return value.empty() ? "needs a value" : ""; }, "");
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options()) {
      if (option->get_type_name() != "TEXT") option->check(has_value);
    }
  }
}

// Returns what is wrong with a value that is no number. what: "Could not convert: --ranks = abc".
std::string describe_no_number(const CLI::App& app, const std::string& what) {
  const std::string given = what.substr(what.find(": ") + 2);
  const std::string name = given.substr(0, given.find(" = "));
  const CLI::Option* option = nullptr;
  for (const CLI::App* command : app.get_subcommands()) {
    if (!option) option = command->get_option_no_throw(name);
  }
  const bool is_whole = option && option->get_type_name() != "FLOAT";
  return fmt::format("{}: must be a {}", given, is_whole ? "whole number" : "number");
}

int run(int argc, char** argv) {
  int exit_code = kDone;
  CLI::App app(
      "Colossal trains, tunes, evaluates and serves large language models on one rank or many.",
      "colossal");
  app.set_version_flag("--version",
                       fmt::format("colossal {} (build {})", kVersion, build_id().substr(0, 12)));
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_train(app, exit_code);
  add_tune(app, exit_code);
  add_plan(app, exit_code);
  add_generate(app, exit_code);
  add_serve(app, exit_code);
  add_evaluate(app, exit_code);
  add_classify(app, exit_code);
  add_convert(app, exit_code);
  add_config(app, exit_code);
  add_check(app, exit_code);
  add_run(app, exit_code);
  add_resize(app, exit_code);
  refuse_empty_numbers(app);
  refuse_unknown_command(app, {argv + 1, argv + argc});
  try {
    std::vector<std::string> arguments = with_empty_values(app, argc, argv);
    std::ranges::reverse(arguments);  // CLI11 parses from the last argument
    app.parse(std::move(arguments));
  } catch (const CLI::ConversionError& error) {
    throw ConfigError(describe_no_number(app, error.what()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kBadUsage;
  }
  return exit_code;
}

// LibTorch's messages end with C++ stack traces: only the first line helps the user.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

int run_and_report(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const ConfigError& error) {
    log::error("{}", error.what());
    return kBadUsage;
  } catch (const CommError& error) {
    log::error("{}", error.what());
    return kRankDied;
  } catch (const Error& error) {
    log::error("{}", error.what());
  } catch (const std::bad_alloc&) {
    log::error(
        "out of memory; use a smaller batch (train.micro_batch; with evaluate: --batch) or a "
        "shorter sequence length");
  } catch (const c10::Error& error) {
    log::error("LibTorch reported an error: {}", first_line(error.what_without_backtrace()));
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      log::error(
          "this system cannot start more threads or processes ({}); use fewer ranks, fewer "
          "train.threads, or a higher limit (ulimit -u)",
          error.code().message());
    } else {
      log::error("failed: {}", first_line(error.what()));
    }
  } catch (const std::exception& error) {
    log::error("failed: {}", first_line(error.what()));
  }
  return kFailed;
}

}  // namespace
}  // namespace colossal::cli

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command != "train" && command != "tune" && command != "run" && command != "serve") {
    colossal::cli::unblock_signals();
  }
  const int exit_code = colossal::cli::run_and_report(argc, argv);
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(exit_code);  // destructors of LibTorch's operator tables would take 0.1 s
}
