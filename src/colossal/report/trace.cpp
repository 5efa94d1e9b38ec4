#include "colossal/report/trace.h"

#include <nlohmann/json.hpp>

#include "colossal/base/error.h"

namespace colossal::report {
namespace {

using nlohmann::ordered_json;

constexpr size_t kFlushBytes = 64 * 1024;

// Returns JSON in one line. Names may have any bytes; invalid UTF-8 becomes U+FFFD.
std::string to_line(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// Returns the event with the name that Perfetto shows for a process or thread in place of its
// number.
std::string metadata_line(const char* name, int rank, int thread, ordered_json arguments) {
  return to_line({{"name", name},
                  {"ph", "M"},
                  {"pid", rank},
                  {"tid", thread},
                  {"args", std::move(arguments)}});
}

}  // namespace

TraceWriter::TraceWriter(const std::filesystem::path& path) : file_(path), buffer_("[") {}

TraceWriter::~TraceWriter() {
  try {
    close();
  } catch (const IoError&) {  // call close() before to get this error
  }
}

int TraceWriter::thread_number(int rank, const std::string& thread) {
  if (ranks_.insert(rank).second) {
    append(metadata_line("process_name", rank, 0, {{"name", fmt::format("rank {}", rank)}}));
    append(metadata_line("process_sort_index", rank, 0, {{"sort_index", rank}}));
  }
  const auto [entry, is_new] = threads_.try_emplace({rank, thread}, threads_.size() + 1);
  if (is_new) append(metadata_line("thread_name", rank, entry->second, {{"name", thread}}));
  return entry->second;
}

void TraceWriter::write(const TraceEvent& event) {
  const std::lock_guard lock(mutex_);
  COLOSSAL_CHECK(!closed_, "trace {}: event \"{}\" after close()", file_.path().string(),
                 event.name);
  ordered_json arguments = ordered_json::object();
  for (const auto& [name, value] : event.arguments) {
    std::visit([&, &key = name](const auto& held) { arguments[key] = held; }, value);
  }
  const int thread = thread_number(event.rank, event.thread);
  append(to_line({{"name", event.name},
                  {"cat", event.category},
                  {"ph", "X"},
                  {"ts", event.start_microseconds},
                  {"dur", event.duration_microseconds},
                  {"pid", event.rank},
                  {"tid", thread},
                  {"args", std::move(arguments)}}));
  if (buffer_.size() >= kFlushBytes) flush_buffer();
}

void TraceWriter::append(const std::string& json) {
  buffer_ += separator_;
  buffer_ += json;
  separator_ = ",\n";
}

void TraceWriter::flush_buffer() {
  file_.write(buffer_);
  buffer_.clear();
}

void TraceWriter::flush() {
  const std::lock_guard lock(mutex_);
  flush_buffer();
}

void TraceWriter::close() {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  closed_ = true;
  buffer_ += "\n]\n";
  flush_buffer();
  file_.close();
}

}  // namespace colossal::report
