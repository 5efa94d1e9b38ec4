#include "colossal/training/metrics.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/training/used_settings.h"

namespace colossal {
namespace {

constexpr int64_t kLongestLine = int64_t{1} << 20;  // bytes; a step's line is far shorter

nlohmann::ordered_json to_json(const report::StepMetrics& metrics) {
  nlohmann::ordered_json line = {
      {"step", metrics.step},
      {"loss", metrics.loss},
      {"grad_norm", metrics.grad_norm},
      {"learning_rate", metrics.learning_rate},
      {"tokens", static_cast<int64_t>(metrics.tokens)},
      {"tokens_per_second", metrics.tokens_per_second},
      {"step_seconds", metrics.step_seconds},
      {"model_flops_utilization", metrics.model_flops_utilization},
      {"memory_peak_bytes", static_cast<int64_t>(metrics.memory_peak_bytes)},
      {"bytes_sent", nlohmann::ordered_json::object()},
      {"skipped", metrics.skipped}};
  if (!std::isnan(metrics.images)) {
    line["images"] = static_cast<int64_t>(metrics.images);
    line["images_per_second"] = metrics.images_per_second;
  }
  if (!metrics.memory_by_kind.empty()) {
    line["memory_at_peak"] = static_cast<int64_t>(metrics.memory_at_peak);
    line["memory_base_bytes"] = static_cast<int64_t>(metrics.memory_base_bytes);
  }
  for (const auto& [kind, bytes] : metrics.memory_by_kind) {
    line["memory_by_kind"][kind] = static_cast<int64_t>(bytes);
  }
  for (const auto& [tier, of_tier] : metrics.tiers) {
    line[tier + "_bytes"] = static_cast<int64_t>(of_tier.at_rest);
    nlohmann::ordered_json& kinds = line["tier_bytes"][tier] = nlohmann::ordered_json::object();
    for (const auto& [kind, moved] : of_tier.moved) {
      kinds[kind] = {{"to", static_cast<int64_t>(moved.to)},
                     {"from", static_cast<int64_t>(moved.from)}};
    }
  }
  for (const auto& [axis, bytes] : metrics.bytes_sent) {
    line["bytes_sent"][axis] = static_cast<int64_t>(bytes);
  }
  if (!std::isnan(metrics.device_peak_bytes)) {
    line["device_peak_bytes"] = static_cast<int64_t>(metrics.device_peak_bytes);
    line["fallbacks"] = static_cast<int64_t>(metrics.fallbacks);
  }
  if (!std::isnan(metrics.validation_loss)) line["validation_loss"] = metrics.validation_loss;
  if (!std::isnan(metrics.evaluation_seconds)) {
    line["evaluation_seconds"] = metrics.evaluation_seconds;
  }
  for (const auto& [name, value] : metrics.task_metrics) line[name] = value;
  return line;
}

std::vector<report::Scalar> to_scalars(const report::StepMetrics& metrics) {
  std::vector<report::Scalar> scalars{
      {"train/loss", metrics.loss},
      {"train/grad_norm", metrics.grad_norm},
      {"train/learning_rate", metrics.learning_rate},
      {"speed/tokens_per_second", metrics.tokens_per_second},
      {"speed/model_flops_utilization", metrics.model_flops_utilization},
      {"memory/peak_bytes", metrics.memory_peak_bytes}};
  if (!std::isnan(metrics.images_per_second)) {
    scalars.push_back({"speed/images_per_second", metrics.images_per_second});
  }
  for (const auto& [axis, bytes] : metrics.bytes_sent) {
    scalars.push_back({"bytes_sent/" + axis, bytes});
  }
  for (const auto& [tier, of_tier] : metrics.tiers) {
    scalars.push_back({"tiers/" + tier + "/at_rest", of_tier.at_rest});
    for (const auto& [kind, moved] : of_tier.moved) {
      scalars.push_back({"tiers/" + tier + "/to/" + kind, moved.to});
      scalars.push_back({"tiers/" + tier + "/from/" + kind, moved.from});
    }
  }
  for (const auto& [kind, bytes] : metrics.memory_by_kind) {
    scalars.push_back({"memory_by_kind/" + kind, bytes});
  }
  for (const auto& [name, value] : metrics.task_metrics) {
    const bool of_experts = name == "router_load" || name == "router_dropped" ||
                            name == "expert_copies" || name == "auxiliary_loss";
    scalars.push_back({(of_experts ? "experts/" : "tune/") + name, value});
  }
  if (!std::isnan(metrics.validation_loss)) {
    scalars.push_back({"validation/loss", metrics.validation_loss});
  }
  return scalars;
}

// Ends the last line of an older file. Removes the line if it is incomplete, after a crash or on a
// full disk, because readers of JSON lines reject it.
void end_last_line(report::OutputFile& file) {
  std::ifstream reader(file.path(), std::ios::binary);
  const int64_t read = std::min(file.size(), kLongestLine);
  std::string end(static_cast<size_t>(read), '\0');
  reader.seekg(-read, std::ios::end);
  reader.read(end.data(), read);
  const std::string line = end.substr(end.rfind('\n') + 1);
  if (!reader || line.empty()) return;
  if (nlohmann::json::accept(line) || std::ssize(line) == kLongestLine) {
    file.write("\n");
    return;
  }
  log::warn("{} ended with an incomplete line, which has been removed", file.path().string());
  file.truncate_to(file.size() - std::ssize(line));
}

// Returns a name for people: that of the folder of the run's checkpoints or logs.
std::string name_of_run(const Job& job) {
  const std::string& checkpoints = job.config.checkpoint.directory;
  const std::filesystem::path folder = checkpoints.empty() ? job.config.log.directory : checkpoints;
  const std::string name = folder.lexically_normal().filename().string();
  return name.empty() ? job.run.substr(0, 8) : name;
}

}  // namespace

MetricsLog::MetricsLog(const Job& job) : directory_(job.config.log.directory) {
  const LogConfig& config = job.config.log;
  if (!directory_.empty()) {
    try {
      open();
    } catch (const IoError& failure) {
      throw IoError(
          fmt::format("{}; log.directory must be a folder that can be written to", failure.what()));
    }
    if (config.tensorboard) events_ = std::make_unique<report::TensorBoardWriter>(directory_);
  }
  if (config.mlflow.empty() && config.wandb.empty()) return;
  std::vector<std::pair<std::string, std::string>> settings{{"command", job.command}};
  for (const UsedSetting& used : used_settings(job)) settings.emplace_back(used.key, used.value);
  const std::string name = name_of_run(job);
  if (!config.mlflow.empty()) {
    mlflow_ =
        std::make_unique<report::MlflowRun>(config.mlflow, config.project, job.run, name, settings);
  }
  if (!config.wandb.empty()) {
    wandb_ =
        std::make_unique<report::WandbRun>(config.wandb, config.project, job.run, name, settings);
  }
}

MetricsLog::~MetricsLog() = default;

void MetricsLog::open() {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  file_.emplace(directory_ / "metrics.jsonl", report::OutputFile::Mode::append);
  end_last_line(*file_);
}

void MetricsLog::follow_rotation() {
  if (file_->is_still_at_path()) return;
  log::warn("{} was moved or removed; the metrics from here on go to a new file of this name",
            file_->path().string());
  open();
}

void MetricsLog::write(const report::StepMetrics& metrics) {
  try {
    if (file_) {
      follow_rotation();
      file_->write(to_json(metrics).dump() + '\n');
    }
    if (!events_ && !mlflow_ && !wandb_) return;
    const std::vector<report::Scalar> scalars = to_scalars(metrics);
    if (events_) events_->write_scalars(metrics.step, scalars);
    if (mlflow_) mlflow_->write_scalars(metrics.step, scalars);
    if (wandb_) wandb_->write_scalars(metrics.step, scalars);
  } catch (const IoError& error) {
    if (!complained_) log::warn("training continues, but metrics are lost: {}", error.what());
    complained_ = true;
  }
}

void MetricsLog::end(bool failed) {
  try {
    if (mlflow_) mlflow_->end(failed);
    if (wandb_) wandb_->end(failed);
  } catch (const IoError& error) {
    log::warn("the end of the run was not logged: {}", error.what());
  }
}

}  // namespace colossal
