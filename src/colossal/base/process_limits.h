// Checks, before a job starts, that the system allows a process the files and threads it needs.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::machine {

// Raises this process's limit of open files to the hard limit. Throws ConfigError if the limit is
// still below `files`; the message has `what` ("4 ranks") and both numbers.
void require_open_files(int64_t files, const std::string& what);

// Throws ConfigError if this process cannot run train_threads + others threads at once. The message
// has the value of train.threads, how many threads could be started, and the limit. beside: names
// what computes with as many threads again at the same time, and the setting that turns it off;
// empty if nothing does.
void require_threads(int train_threads, int others, const std::string& beside = "");

}  // namespace colossal::machine
