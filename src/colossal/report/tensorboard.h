// Writes the metrics of a run as an events file for TensorBoard: scalars and texts by step.
//
// The file is a sequence of TFRecords: length, masked CRC-32C of the length, bytes, masked CRC-32C
// of the bytes. The bytes are a protocol buffer tensorflow.Event
// (tensorflow/core/util/event.proto).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "colossal/report/output_file.h"

namespace colossal::report {

struct Scalar {
  std::string tag;  // name: "train/loss"; TensorBoard groups charts by the part before the slash
  double value;     // stored as a 32-bit float, as TensorBoard does
};

// Each write_...() call writes one record, unbuffered (OutputFile). If the process is killed, at
// worst the last record is incomplete; readers ignore an incomplete last record. Not thread-safe.
class TensorBoardWriter {
 public:
  // Creates `directory` if it is missing, and in it a new file events.out.tfevents.<seconds since
  // 1970>.<host>.<process>, to which a number is appended if this file exists. The constructor and
  // the write_...() functions throw IoError if writing fails.
  explicit TensorBoardWriter(const std::filesystem::path& directory);

  // Writes scalars of a step in one record. wall_time: seconds since 1970; nullopt: now.
  void write_scalars(int64_t step, std::span<const Scalar> scalars,
                     std::optional<double> wall_time = std::nullopt);
  // Writes a text, which TensorBoard shows as Markdown. tag: name of the text.
  void write_text(int64_t step, const std::string& tag, const std::string& text,
                  std::optional<double> wall_time = std::nullopt);

  const std::filesystem::path& path() const { return file_->path(); }

 private:
  std::unique_ptr<OutputFile> file_;
};

}  // namespace colossal::report
