// An events file that TensorBoard shows: scalars and text over steps.
//
// The file is a sequence of TFRecords (length, masked CRC-32C of it, bytes, masked CRC-32C of
// them), each the protocol buffer tensorflow.Event (tensorflow/core/util/event.proto).
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
  std::string tag;  // "train/loss"; what precedes a slash groups charts
  double value;     // kept as a 32-bit float, which is what TensorBoard holds
};

// Each call below writes one record, which the system has when the call returns. A writer that is
// killed leaves a file of whole records; at worst the last is torn, and readers stop before it.
class TensorBoardWriter {
 public:
  // Creates `directory` where it is missing, and in it a file of its own,
  // events.out.tfevents.<seconds since 1970>.<host>.<process>. Throws IoError, as all members do.
  explicit TensorBoardWriter(const std::filesystem::path& directory);

  // `wall_time` in seconds since 1970; left out: now.
  void write_scalars(int64_t step, std::span<const Scalar> scalars,
                     std::optional<double> wall_time = std::nullopt);
  // Shown as Markdown.
  void write_text(int64_t step, const std::string& tag, const std::string& text,
                  std::optional<double> wall_time = std::nullopt);

  const std::filesystem::path& path() const { return file_->path(); }

 private:
  std::unique_ptr<OutputFile> file_;
};

}  // namespace colossal::report
