// Writes the metrics of each step of a run to metrics.jsonl, one JSON object per line, and for
// TensorBoard, MLflow and Weights & Biases. RunMonitor uses this; report/metrics_log.h reads the
// file.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "colossal/job/job.h"
#include "colossal/report/metrics_log.h"
#include "colossal/report/mlflow.h"
#include "colossal/report/output_file.h"
#include "colossal/report/tensorboard.h"
#include "colossal/report/wandb.h"

namespace colossal {

class MetricsLog {
 public:
  // Creates log.directory of the job if it is missing, and opens its metrics.jsonl. If the file
  // exists, its lines are kept, except an unfinished last line. Also opens the files of
  // log.tensorboard, log.mlflow and log.wandb. Throws IoError.
  explicit MetricsLog(const Job& job);
  ~MetricsLog();

  // Tells the logs of MLflow and W&B that the run has ended. Logs a warning if they cannot be
  // written.
  void end(bool failed);

  // Writes the metrics of a step; the line is handed to the operating system before this returns.
  // If metrics.jsonl was moved or removed, as programs that rotate logs do, a new one is made, and
  // a warning is logged. If writing fails, for example because the disk is full, the metrics of
  // this step are lost, and a warning is logged the first time only. write() then throws nothing,
  // so that the run continues.
  void write(const report::StepMetrics& metrics);

 private:
  void open();             // opens metrics.jsonl; throws IoError
  void follow_rotation();  // opens it again if it is no longer where it was

  std::filesystem::path directory_;
  bool complained_ = false;  // whether the warning was logged
  std::optional<report::OutputFile> file_;
  std::unique_ptr<report::TensorBoardWriter> events_;
  std::unique_ptr<report::MlflowRun> mlflow_;
  std::unique_ptr<report::WandbRun> wandb_;
};

}  // namespace colossal
