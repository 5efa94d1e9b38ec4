// Writes a run into a file store of MLflow (a folder mlruns), which `mlflow ui` shows and
// `mlflow migrate-filestore` moves into a database. The format is that of MLflow's own FileStore:
//
//   STORE/EXPERIMENT/meta.yaml
//   STORE/EXPERIMENT/RUN/meta.yaml, params/KEY, tags/KEY, metrics/NAME (lines "TIME VALUE STEP")
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "colossal/report/output_file.h"
#include "colossal/report/tensorboard.h"

namespace colossal::report {

class MlflowRun {
 public:
  // Opens a run, or creates it, and the experiment of this name if the store has none. A run that
  // exists, because it is resumed, gets further values. run: 32 hexadecimal digits. name: of the
  // run, for people. params: keys and values of its settings. Throws IoError.
  MlflowRun(const std::filesystem::path& store, const std::string& experiment,
            const std::string& run, const std::string& name,
            const std::vector<std::pair<std::string, std::string>>& params);

  // Adds values of a step. Values that are not finite are left out. Throws IoError.
  void write_scalars(int64_t step, const std::vector<Scalar>& scalars);

  // Marks the run as finished or failed. Throws IoError.
  void end(bool failed);

  const std::filesystem::path& folder() const { return folder_; }  // of the run

 private:
  void write_meta(int status, const std::string& end_time);

  std::filesystem::path folder_;
  std::string experiment_id_, run_, name_;
  int64_t start_time_ = 0;  // milliseconds since 1970-01-01 UTC
  std::map<std::string, OutputFile> metrics_;
};

}  // namespace colossal::report
