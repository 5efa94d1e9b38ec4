#include <ATen/Parallel.h>

#include <cstdio>
#include <memory>

#include "colossal/base/config_schema.h"
#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/machine.h"
#include "colossal/booster/precision.h"
#include "colossal/cli/command.h"
#include "colossal/cli/thread_spinning.h"
#include "colossal/comm/world.h"
#include "colossal/memory/tier_config.h"
#include "colossal/models/families.h"
#include "colossal/serve/generate.h"
#include "colossal/serve/inference_model.h"
#include "colossal/serve/model_folder.h"
#include "colossal/text/streaming_decoder.h"
#include "colossal/text/tokenizer.h"

namespace colossal::cli {
namespace {

struct GenerateArguments {
  std::string model;
  std::string prompt;
  serve::GenerateOptions options;
  std::vector<std::string> flags;  // --section.key=value
};

// What of a run.toml's keys generation has, under the same names.
struct GenerateConfig {
  std::string compute = "auto";
  memory::Offload offload_parameters = "none";
  int64_t table_rows = 0;
  std::string nvme_path;
};

void describe(ConfigSchema& schema, GenerateConfig& config) {
  schema.add("precision.compute", &config.compute,
             "type of weights and activations; auto: that of the folder, bf16 where it has fp16",
             {.choices = {"auto", "fp32", "bf16", "fp64"}});
  memory::add_offload_key(schema, "parameters", &config.offload_parameters, "weights",
                          /*or_auto=*/false);
  memory::add_table_rows_key(schema, &config.table_rows);
  memory::add_nvme_path_key(schema, &config.nvme_path);
}

std::string generate_help() {
  GenerateConfig config;
  ConfigSchema schema;
  describe(schema, config);
  return "Keys as of a training run:\n\n" + schema.help();
}

GenerateConfig parse_flags(const std::vector<std::string>& flags) {
  GenerateConfig config;
  ConfigSchema schema;
  describe(schema, config);
  for (const std::string& flag : flags) schema.set_flag(flag);
  return config;
}

memory::Tiers resolve_tiers(const GenerateConfig& config) {
  const memory::Tiers tiers{
      .parameters = memory::resolve_shares("parameters", config.offload_parameters),
      .nvme_path = config.nvme_path};
  memory::require_nvme_path(tiers);
  return tiers;
}

at::ScalarType resolve_type(const std::string& folder, const GenerateConfig& config) {
  if (config.compute == "auto") return serve::compute_type(folder);
  return resolve_precision({.compute = config.compute}, /*bf16_instructions=*/false, 1).compute;
}

void generate(const GenerateArguments& arguments) {
  const GenerateConfig config = parse_flags(arguments.flags);
  const memory::Tiers tiers = resolve_tiers(config);
  at::set_num_threads(machine::available_cores());
  if (machine::available_cores() > 1) limit_spinning();
  const models::ModelSpecification specification = models::resolve_model({.path = arguments.model});
  if (specification.weights.empty()) {
    throw ConfigError(fmt::format("{} holds no weights to generate with", arguments.model));
  }
  const auto tokenizer = text::make_tokenizer(arguments.model);
  const c10::Device device = comm::device_alone("auto");
  const serve::InferenceModel model(specification, {.type = resolve_type(arguments.model, config),
                                                    .device = device,
                                                    .tiers = tiers,
                                                    .table_rows = config.table_rows});
  const std::string offload = model.describe_offload();
  if (!offload.empty()) log::info("{}", offload);
  serve::GenerateOptions options = arguments.options;
  options.device = device;
  options.end_tokens = serve::end_tokens(arguments.model, *tokenizer);

  using Begins = text::StreamingDecoder::Begins;
  text::StreamingDecoder decoder(
      *tokenizer, arguments.prompt.empty() ? Begins::with_text : Begins::after_prompt);
  const auto write = [](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  write(arguments.prompt);
  serve::generate(*model, specification.facts, tokenizer->encode_prompt(arguments.prompt), options,
                  [&](int32_t token) { write(decoder.push(token)); });
  write(decoder.flush() + "\n");
}

}  // namespace

void add_generate(CLI::App& app, int&) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command =
      app.add_subcommand("generate", "Continue a text with a model, token by token");
  command->add_option("model", arguments->model, "a Hugging Face folder, for example a checkpoint")
      ->required();
  command->add_option("--prompt", arguments->prompt, "text to continue")->required();
  serve::GenerateOptions& options = arguments->options;
  command->add_option("--max-new-tokens", options.max_new_tokens, "most tokens to add")
      ->capture_default_str();
  command
      ->add_option("--temperature", options.sampling.temperature, "0: always the most likely token")
      ->capture_default_str();
  command->add_option("--top-k", options.sampling.top_k, "draw from the k most likely; 0: from all")
      ->capture_default_str();
  command
      ->add_option("--top-p", options.sampling.top_p,
                   "draw from the fewest whose probabilities reach p")
      ->capture_default_str();
  command->add_option("--seed", options.sampling.seed, "the same seed draws the same text")
      ->capture_default_str();
  command->allow_extras();
  command->footer(generate_help);
  command->callback([arguments, command] {
    arguments->flags = command->remaining();
    generate(*arguments);
  });
}

}  // namespace colossal::cli
