// Checks, before a job starts, that a process may have the open files and threads that it needs.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::machine {

// Raises this process's limit of open files to the hard limit. Throws ConfigError if that is below
// `files`. what: what needs the files ("4 ranks"), for the message.
void require_open_files(int64_t files, const std::string& what);

// Throws ConfigError if this process cannot run train_threads + others threads at once. The message
// has the value of train.threads, how many threads could be started, and the limit. beside: if not
// empty, something else computes with another `train_threads` threads at the same time. These
// threads are counted too. `beside` names that work and the setting that turns it off, for the
// message.
void require_threads(int train_threads, int others, const std::string& beside = "");

}  // namespace colossal::machine
