// Writes a trace of a run, i.e. what each rank did and when, as a file for Perfetto
// (ui.perfetto.dev) and chrome://tracing.
//
// The format is the Trace Event Format, in its array form (JSON). The format allows the closing
// bracket to be missing, so the trace of a killed process can be opened, too; it then has the
// events up to the last flush.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "colossal/report/output_file.h"

namespace colossal::report {

// Value of an argument of an event.
using TraceValue = std::variant<int64_t, double, std::string>;

// An event with a duration. Times are in microseconds since an origin that all events of the trace
// share.
struct TraceEvent {
  std::string name;
  std::string category;  // "compute", "communication", ...; Perfetto can filter by category
  double start_microseconds = 0;
  double duration_microseconds = 0;
  int rank = 0;  // the viewer shows a rank as a process
  // Name of the row of the rank in which the viewer shows the event. Events of a row must be nested
  // or must not overlap.
  std::string thread;
  // Further information, shown when the event is selected: names and values.
  std::vector<std::pair<std::string, TraceValue>> arguments;
};

// Writes one trace file. Thread-safe, so that ranks that are threads of one process can share a
// writer.
class TraceWriter {
 public:
  // Creates the file, or replaces it. This, write(), flush() and close() throw IoError if writing
  // fails.
  explicit TraceWriter(const std::filesystem::path& path);
  ~TraceWriter();  // calls close() and ignores errors

  // Adds an event to a buffer, and writes the buffer to the file if it has 64 KiB. Throws
  // InternalError after close().
  void write(const TraceEvent& event);
  void flush();  // writes the buffered events to the file
  void close();  // writes the buffered events and the end of the array, and closes the file

 private:
  // Returns the number of a row, from 1. When a rank or a row occurs for the first time, appends
  // its name to the trace.
  int thread_number(int rank, const std::string& thread);
  void append(const std::string& json);
  void flush_buffer();

  std::mutex mutex_;
  OutputFile file_;
  std::string buffer_;            // complete events only, so that a flush never splits an event
  const char* separator_ = "\n";  // text before the next event
  bool closed_ = false;
  std::set<int> ranks_;                                 // ranks that have occurred
  std::map<std::pair<int, std::string>, int> threads_;  // (rank, row) -> number of the row
};

}  // namespace colossal::report
