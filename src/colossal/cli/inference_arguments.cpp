#include "colossal/cli/inference_arguments.h"

#include <ATen/Parallel.h>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/machine.h"
#include "colossal/base/process_limits.h"
#include "colossal/booster/precision.h"
#include "colossal/cli/thread_spinning.h"
#include "colossal/serve/model_folder.h"

namespace colossal::cli {
namespace {

memory::Tiers resolve_tiers(const InferenceConfig& config) {
  const memory::Tiers tiers{
      .parameters = memory::resolve_shares("parameters", config.offload_parameters),
      .nvme_path = config.nvme_path};
  memory::require_nvme_path(tiers);
  return tiers;
}

at::ScalarType resolve_type(const std::string& folder, const InferenceConfig& config) {
  if (config.compute == "auto") return serve::compute_type(folder);
  return resolve_precision({.compute = config.compute}, /*bf16_instructions=*/false, 1).compute;
}

}  // namespace

void describe(ConfigSchema& schema, InferenceConfig& config) {
  schema.add("precision.compute", &config.compute,
             "type of weights and activations; auto: that of the folder, bf16 where it has fp16",
             {.choices = {"auto", "fp32", "bf16", "fp64"}});
  memory::add_offload_key(schema, "parameters", &config.offload_parameters, "weights",
                          /*or_auto=*/false);
  memory::add_table_rows_key(schema, &config.table_rows);
  memory::add_nvme_path_key(schema, &config.nvme_path);
  schema.add("train.threads", &config.threads, "With how many threads the CPU computes.",
             {.minimum = 1, .maximum = 1024, .unset = "cores", .per_rank = true});
}

void prepare(const InferenceConfig& config) {
  resolve_tiers(config);
  const auto threads = static_cast<int>(config.threads.value_or(machine::available_cores()));
  if (threads > 1) limit_spinning();
  constexpr int kOtherThreads = 4;
  machine::require_threads(threads, kOtherThreads);
  at::set_num_threads(threads);
}

models::ModelSpecification resolve_trained_model(const std::string& folder,
                                                 const std::string& to_do) {
  models::ModelSpecification specification = models::resolve_model({.path = folder});
  if (specification.weights.empty()) {
    throw ConfigError(fmt::format("{} holds no weights to {} with", folder, to_do));
  }
  return specification;
}

std::unique_ptr<serve::InferenceModel> open_model(const models::ModelSpecification& specification,
                                                  const InferenceConfig& config,
                                                  at::Device device) {
  auto model = std::make_unique<serve::InferenceModel>(
      specification, serve::InferenceOptions{.type = resolve_type(specification.weights, config),
                                             .device = device,
                                             .tiers = resolve_tiers(config),
                                             .table_rows = config.table_rows});
  const std::string offload = model->describe_offload();
  if (!offload.empty()) log::info("{}", offload);
  return model;
}

}  // namespace colossal::cli
