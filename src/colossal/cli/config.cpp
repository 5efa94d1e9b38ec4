// Prints the reference of run.toml's keys as Markdown (docs/configuration.md).
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "colossal/cli/command.h"
#include "colossal/cli/inference_arguments.h"
#include "colossal/job/parallel_config.h"
#include "colossal/job/run_config.h"
#include "colossal/tune/tuning_method.h"

namespace colossal::cli {
namespace {

using KeyHelp = ConfigSchema::KeyHelp;

constexpr char kKeyTable[] = "| key | default | values | |\n|---|---|---|---|\n";

constexpr char kIntroduction[] =
    R"(<!-- Made by `build/colossal config > docs/configuration.md`, which a test compares. -->
# Configuration

A run is described by a TOML file with the keys on this page; a model and `data.train` are enough. Every key is
also a flag, `--section.key=value`, which overrides the file. An unknown key or a wrong value is an error before the
run starts, and the message names the nearest key or valid values. Sizes are written `"12GiB"`, durations `"300s"`.

All ranks of a job must have the same values, except for keys marked *by rank*.
)";

// Returns text for a cell of a table; escapes Markdown's special characters.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find_first_of("|*<", at)) != std::string::npos; at += 2) {
    text.insert(at, "\\");
  }
  return text;
}

std::string name_of(const KeyHelp& key) {
  return key.key.substr(key.key.find('.') + 1);
}

std::string default_of(const KeyHelp& key) {
  return key.default_value.empty() ? key.computed_default : fmt::format("`{}`", key.default_value);
}

std::string row(const KeyHelp& key, const std::string& name) {
  return fmt::format("| `{}` | {} | {}{} | {} |\n", name, cell(default_of(key)), cell(key.values),
                     key.per_rank ? "; *by rank*" : "", cell(key.text));
}

std::string tables(const ConfigSchema& schema) {
  std::string text;
  for (const std::string& section : schema.sections()) {
    text += fmt::format("\n## [{}]\n\n{}", section, kKeyTable);
    for (const KeyHelp& key : schema.key_helps()) {
      if (key.key.starts_with(section + ".")) text += row(key, name_of(key));
    }
    const std::string more = schema.open_section_help(section);
    if (!more.empty()) text += fmt::format("| ... | | | {} |\n", cell(more));
  }
  return text;
}

// A key of tuning methods that `train` does not have, with the methods that describe it in the same
// words.
struct MethodKeys {
  std::vector<std::string> methods;
  KeyHelp key;
};

std::vector<KeyHelp> helps_of(const tune::TuningMethod& method) {
  RunConfig run;
  tune::TuneConfig config;
  ConfigSchema schema;
  tune::set_defaults(method, run, config);
  tune::describe(schema, method, config);
  describe(schema, run);
  return schema.key_helps();
}

bool same_key(const KeyHelp& a, const KeyHelp& b) {
  return a.key == b.key && a.text == b.text && a.values == b.values &&
         a.default_value == b.default_value && a.computed_default == b.computed_default;
}

const KeyHelp* find(const std::vector<KeyHelp>& keys, const std::string& name) {
  const auto found = std::ranges::find(keys, name, &KeyHelp::key);
  return found == keys.end() ? nullptr : &*found;
}

// Returns a table with one row for all methods that describe a key in the same words.
std::string tuning_keys(const std::vector<KeyHelp>& of_training) {
  std::vector<MethodKeys> rows;
  for (const tune::TuningMethod* const method : tune::all_methods()) {
    for (const KeyHelp& key : helps_of(*method)) {
      if (find(of_training, key.key)) continue;
      const auto found = std::ranges::find_if(
          rows, [&](const MethodKeys& each) { return same_key(each.key, key); });
      if (found == rows.end()) {
        rows.push_back({{method->name()}, key});
      } else {
        found->methods.push_back(method->name());
      }
    }
  }
  std::ranges::stable_sort(rows, {}, [](const MethodKeys& each) { return each.key.key; });
  std::string text = "\n| key | methods | default | values | |\n|---|---|---|---|---|\n";
  const std::size_t all = tune::all_methods().size();
  for (const MethodKeys& each : rows) {
    const std::string methods =
        each.methods.size() == all ? "all" : fmt::format("{}", fmt::join(each.methods, ", "));
    text += fmt::format("| `{}` | {} ", each.key.key, methods) +
            row(each.key, "").substr(std::string("| `` ").size());
  }
  return text;
}

// Returns a table of the keys that a method describes otherwise than `train`, with the defaults.
std::string tuning_defaults(const std::vector<KeyHelp>& of_training) {
  std::string head = "\n| key | `train`", rule = "|---|---", text;
  std::vector<std::vector<KeyHelp>> methods;
  for (const tune::TuningMethod* const method : tune::all_methods()) {
    methods.push_back(helps_of(*method));
    head += fmt::format(" | `{}`", method->name());
    rule += "|---";
  }
  for (const KeyHelp& key : of_training) {
    std::string cells;
    bool changed = false;
    for (const std::vector<KeyHelp>& keys : methods) {
      const KeyHelp* its = find(keys, key.key);
      changed = changed || !same_key(*its, key);
      cells += fmt::format(" | {}", cell(default_of(*its)));
    }
    if (changed) text += fmt::format("| `{}` | {}{} |\n", key.key, cell(default_of(key)), cells);
  }
  return head + " |\n" + rule + "|\n" + text;
}

std::string configuration_page() {
  RunConfig run;
  ConfigSchema training;
  describe(training, run);
  InferenceConfig inference;
  ConfigSchema of_inference;
  describe(of_inference, inference);
  const std::vector<KeyHelp> keys = training.key_helps();
  std::string text = kIntroduction + tables(training);
  text += "\n## Additional keys of `colossal tune METHOD`\n" + tuning_keys(keys);
  text += "\nThe defaults of these keys with a method differ from those with `train`:\n" +
          tuning_defaults(keys);
  text +=
      "\n## Keys of `generate`, `serve`, `evaluate` and `classify`\n\nThey are flags only.\n\n" +
      std::string(kKeyTable);
  for (const KeyHelp& key : of_inference.key_helps()) text += row(key, key.key);
  ParallelConfig parallel;
  ConfigSchema of_ranks;
  describe_model_ranks(of_ranks, parallel);
  ConfigSchema of_evaluation;
  describe_evaluation_ranks(of_evaluation, parallel);
  text += "\nWith several ranks, for `generate` and `serve`:\n\n" + std::string(kKeyTable);
  for (const KeyHelp& key : of_ranks.key_helps()) text += row(key, key.key);
  text += "\nWith several ranks, for `evaluate` and `classify`:\n\n" + std::string(kKeyTable);
  for (const KeyHelp& key : of_evaluation.key_helps()) text += row(key, key.key);
  return text;
}

}  // namespace

void add_config(CLI::App& app, int&) {
  CLI::App* command = app.add_subcommand(
      "config", "Print the reference of all keys of run.toml as Markdown (docs/configuration.md)");
  command->callback([] { fmt::print("{}", configuration_page()); });
}

}  // namespace colossal::cli
