// Checks, before a job starts, that the operating system lets this process have the open files and
// threads that the process will need.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::machine {

// Raises this process's limit of open files to the hard limit. Throws ConfigError if the hard limit
// is below `files`, the most files that this process will have open at once. what: what needs the
// files ("4 ranks"), for the message.
void require_open_files(int64_t files, const std::string& what);

// Starts as many threads as this process will need at once, and ends them before it returns. Throws
// ConfigError if the system does not let it start all. The number of threads is train_threads +
// others; if `beside` is not empty, it is 2 * train_threads + others.
//   train_threads  the value of train.threads
//   others         number of threads for other purposes
//   beside         work that runs beside the training with another `train_threads` threads, and
//                  the setting that turns it off, as text for the message, such as "the sampler
//                  (tune.overlap_sampling)"; empty: no such work
void require_threads(int train_threads, int others, const std::string& beside = "");

}  // namespace colossal::machine
