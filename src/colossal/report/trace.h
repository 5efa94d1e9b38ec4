// Writes a trace for Perfetto (ui.perfetto.dev) and chrome://tracing: what each rank did, and when.
//
// The format is the Trace Event Format, in its array form. The closing bracket may be missing, so
// the trace of a killed process can be opened, too, up to the last flush.
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

// An event with a duration. start_microseconds: since an origin that all events share.
struct TraceEvent {
  std::string name;
  std::string category;  // "compute", "communication", ...; Perfetto can filter by category
  double start_microseconds = 0;
  double duration_microseconds = 0;
  int rank = 0;        // shown as a process
  std::string thread;  // a row of the rank; its events are nested or consecutive
  std::vector<std::pair<std::string, TraceValue>> arguments;
};

// Thread-safe, so that ranks that are threads can share a writer.
class TraceWriter {
 public:
  // Throws IoError, as write(), flush() and close() do.
  explicit TraceWriter(const std::filesystem::path& path);
  ~TraceWriter();  // calls close() and ignores errors

  void write(const TraceEvent& event);
  void flush();  // writes buffered events to the file; write() does so every 64 KiB
  void close();  // writes the end of the array; no write() may follow

 private:
  int thread_number(int rank, const std::string& thread);
  void append(const std::string& json);
  void flush_buffer();

  std::mutex mutex_;
  OutputFile file_;
  std::string buffer_;            // complete events only, so that a flush never splits an event
  const char* separator_ = "\n";  // text before the next event
  bool closed_ = false;
  std::set<int> ranks_;
  std::map<std::pair<int, std::string>, int> threads_;
};

}  // namespace colossal::report
