// A timeline that Perfetto (ui.perfetto.dev) and chrome://tracing open: what each rank did when.
//
// Trace Event Format, the array form: its closing bracket may be missing, so the file of a process
// that died opens too, up to the last flush.
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

using TraceValue = std::variant<int64_t, double, std::string>;

// Something that took from `start_microseconds` (any common origin) for `duration_microseconds`.
struct TraceEvent {
  std::string name;
  std::string category;  // "compute", "communication", ...: Perfetto filters by it
  double start_microseconds = 0;
  double duration_microseconds = 0;
  int rank = 0;        // shown as a process
  std::string thread;  // a row within the rank; events of one row nest or follow each other
  std::vector<std::pair<std::string, TraceValue>> arguments;
};

// Ranks that are threads may share a writer: calls may come from several threads.
class TraceWriter {
 public:
  explicit TraceWriter(const std::filesystem::path& path);  // throws IoError, as all members do
  ~TraceWriter();                                           // closes; errors are lost

  void write(const TraceEvent& event);
  void flush();  // hands what was written to the system; also done every 64 KiB
  void close();  // ends the array; nothing can be written after it

 private:
  int thread_number(int rank, const std::string& thread);
  void append(const std::string& json);
  void flush_buffer();

  std::mutex mutex_;
  OutputFile file_;
  std::string buffer_;            // whole events only, so that a flush never ends within one
  const char* separator_ = "\n";  // what goes before the next event
  bool closed_ = false;
  std::set<int> ranks_;
  std::map<std::pair<int, std::string>, int> threads_;
};

}  // namespace colossal::report
