// Checks, before a job starts, that the system lets a process have the files and threads it needs.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::machine {

// Raises this process's limit of open files as far as it may. Throws ConfigError, naming `what`
// ("4 ranks") and both numbers, where it stays below `files`.
void require_open_files(int64_t files, const std::string& what);

// Throws ConfigError, naming train.threads, the number that it has and the limit, where this
// process cannot start that many threads and `others` beside them at once. beside: what computes
// with as many threads again at the same time, with the setting that turns it off; empty: nothing.
void require_threads(int train_threads, int others, const std::string& beside = "");

}  // namespace colossal::machine
