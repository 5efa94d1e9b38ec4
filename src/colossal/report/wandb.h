// Writes a run as Weights & Biases does offline: a folder offline-run-TIME-RUN with the file
// run-RUN.wandb, which `wandb sync` sends.
//
// The file has a header of 7 bytes and then the records of a LevelDB log: blocks of 32 KiB with
// parts of records, each with CRC-32, length and type (github.com/google/leveldb, log_format.md,
// but with zlib's CRC-32 without a mask). A record is a protocol buffer wandb_internal.Record.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/report/output_file.h"
#include "colossal/report/protobuf.h"
#include "colossal/report/tensorboard.h"

namespace colossal::report {

class WandbRun {
 public:
  // Creates the folder of a run in `directory`. A resumed run has a folder for each start, which
  // `wandb sync --append` joins, because the id is the same. run: id of the run. name: for people.
  // config: keys and values of its settings, as JSON or as
  // texts. Throws IoError.
  WandbRun(const std::filesystem::path& directory, const std::string& project,
           const std::string& run, const std::string& name,
           const std::vector<std::pair<std::string, std::string>>& config);

  // Adds values of a step. Values that are not finite are left out. Throws IoError.
  void write_scalars(int64_t step, const std::vector<Scalar>& scalars);

  // Writes that the run has ended. Throws IoError.
  void end(bool failed);

  const std::filesystem::path& file() const { return file_->path(); }

 private:
  // Appends a record with the message `content` as its field `field`.
  void write(uint32_t field, const ProtobufWriter& content);
  void append_part(std::string& out, std::string_view data, int type) const;

  double start_ = 0;  // seconds since 1970-01-01 UTC
  int64_t num_records_ = 0;
  std::optional<OutputFile> file_;
};

}  // namespace colossal::report
