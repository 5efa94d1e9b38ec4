// The settings that a run uses: every key with its value, whether it was given, is a default, or
// was chosen by the program. They are written to run.toml in the log folder and in each checkpoint,
// shown in the report, and compared when a run resumes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/job/job.h"

namespace colossal {

struct UsedSetting {
  std::string key;       // with its section: "optimizer.betas"
  std::string value;     // as TOML; a description if the value is not known here ("the model's")
  std::string source;    // "file", "flag", "default"; "chosen": by the program
  bool is_value = true;  // whether `value` is TOML
};

// Returns the settings of a job whose precision is settled, including those of its task
// (Job::read_values), by section. A key that the run's optimizer does not have has the value "not
// used".
std::vector<UsedSetting> used_settings(const Job& job);

// Returns the contents of run.toml: a file with which `colossal` starts the same run. Defaults, and
// values that the program chose for this number of ranks or this machine, are comments; every key
// has its source as a comment. run: the id of the run, for the first line.
std::string run_file(const Job& job, const std::string& run);
inline constexpr const char* kRunFile = "run.toml";

// Returns the id of the run in the first line of a run.toml; "" if there is none.
std::string run_of_file(const std::string& contents);
// Whether two files run.toml have the same settings, apart from those of the layout and the log,
// and from what the program chose for the number of ranks and the machine.
bool same_settings(const std::string& a, const std::string& b);

// Returns the settings for the state in a checkpoint: an object of key and value.
nlohmann::json settings_to_save(const Job& job);

// Returns a line for each setting that changes the numbers of a run and differs between a
// checkpoint and this run. saved: what settings_to_save() returned for the checkpoint. Settings
// that a task itself compares (files, tokenizer), or that only say where and how the run computes,
// do not count.
std::vector<std::string> changed_settings(const nlohmann::json& saved, const Job& job);

}  // namespace colossal
