// Other programs, run to their end.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace colossal::test {

struct ProcessResult {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;      // 0 when it ended by itself
  std::string output;  // stdout and stderr together
};

// `environment` is added to this process's own.
ProcessResult run_process(const std::vector<std::string>& command,
                          const std::map<std::string, std::string>& environment = {});

// The variables that preload tests/support/crash_shim.c; `faults` as it says there.
std::map<std::string, std::string> fault_environment(const std::string& path_text,
                                                     const std::string& faults);

}  // namespace colossal::test
