// Checks, before a job starts, that the operating system lets this process have the open files and
// threads that the process will need.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::machine {

// Raises this process's limit of open files to the hard limit. Throws ConfigError if the hard limit
// is below `files`. what: what needs the files ("4 ranks"), for the message.
void require_open_files(int64_t files, const std::string& what);

// Starts, and ends again, train_threads + others threads or, if `beside` is not empty,
// 2 * train_threads + others: as many as this process will need at once. Throws ConfigError if not
// all of them start. train_threads: the value of train.threads. others: number of threads for
// other purposes. beside: text for the message, which names work that runs beside the training with
// `train_threads` threads of its own, and the setting that turns this work off; empty: there is no
// such work.
void require_threads(int train_threads, int others, const std::string& beside = "");

}  // namespace colossal::machine
