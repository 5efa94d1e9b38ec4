// Checks, before a job starts, that the operating system lets this process have the open files and
// threads that the process will need.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::machine {

// Raises this process's limit of open files to the hard limit. Throws ConfigError if the hard limit
// is below `files`. what: what needs the files ("4 ranks"), for the message.
void require_open_files(int64_t files, const std::string& what);

// Throws ConfigError if this process cannot run train_threads + others threads at once; starts such
// threads to find out. train_threads: the value of train.threads. others: number of threads for
// other purposes. beside: empty, or the name of work that computes with another `train_threads`
// threads at the same time, with the setting that turns the work off, for the message. These
// threads are then counted, too.
void require_threads(int train_threads, int others, const std::string& beside = "");

}  // namespace colossal::machine
