#include "colossal/cli/inference_arguments.h"

#include <malloc.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>

#include "colossal/adapters/peft_folder.h"
#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/machine.h"
#include "colossal/base/process_limits.h"
#include "colossal/base/units.h"
#include "colossal/cli/model_source.h"
#include "colossal/job/precision.h"
#include "colossal/serve/model_folder.h"
#include "colossal/text/tokenizer/tokenizer_files.h"

namespace colossal::cli {
namespace {

memory::Tiers resolve_tiers(const InferenceConfig& config) {
  const memory::Tiers tiers{
      .parameters = memory::resolve_shares("parameters", config.offload_parameters),
      .nvme_path = config.nvme_path};
  memory::require_nvme_path(tiers);
  return tiers;
}

// The C library keeps freed buffers of up to 32 MiB in the heap of the thread that allocated them.
// Buffers of offloaded weights would then take much of the memory that offloading saves.
void return_freed_buffers() {
  constexpr int kMappedFrom = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, kMappedFrom);
}

void prepare_rank(const InferenceConfig& config, int local_size) {
  if (!resolve_tiers(config).parameters.all_on_device()) return_freed_buffers();
  const int cores = std::max(1, machine::available_cores() / local_size);
  const auto threads = static_cast<int>(config.threads.value_or(cores));
  constexpr int kOtherThreads = 4;
  machine::require_threads(threads, kOtherThreads);
  at::set_num_threads(threads);
}

serve::InferenceOptions inference_options(const models::ModelSpecification& specification,
                                          const InferenceConfig& config, at::Device device,
                                          const serve::WeightBits& bits) {
  return {.type = resolve_compute_type(specification, config),
          .device = device,
          .tiers = resolve_tiers(config),
          .table_rows = config.table_rows,
          .quantization = bits.quantization,
          .as_stored = bits.as_stored};
}

// What ranks must agree on.
std::string describe(const serve::WeightBits& bits) {
  if (!bits.quantization) return bits.as_stored ? "auto" : "none";
  using Quantization = ops::Quantization;
  const Quantization& how = *bits.quantization;
  std::string type = how.type == Quantization::Type::int8   ? "int8"
                     : how.type == Quantization::Type::int4 ? "int4"
                                                            : "fp8";
  if (how.activations != ops::Activations::as_given) type += "-dynamic";
  return fmt::format("{}, groups of {}", type, how.group);
}

void describe_weights(const serve::InferenceModel& model,
                      const models::ModelSpecification& specification,
                      const serve::WeightBits& bits) {
  if (model.is_quantized()) {
    log::info("weights: {}", format_bytes(model.weight_bytes()));
  } else if (bits.as_stored) {
    const std::string method = models::stored_form_of(specification.weights).method;
    if (!method.empty()) {
      log::info(
          "weights: {}, dequantized: the kernels cannot use the folder's format (quant_method = "
          "\"{}\") directly",
          format_bytes(model.weight_bytes()), method);
    }
  }
  const std::string offload = model.describe_offload();
  if (!offload.empty()) log::info("{}", offload);
}

}  // namespace

at::ScalarType resolve_compute_type(const models::ModelSpecification& specification,
                                    const InferenceConfig& config) {
  if (config.compute == "auto") return serve::compute_type(specification.weights);
  return resolve_precision({.compute = config.compute}, /*bf16_instructions=*/false, 1).compute;
}

void describe(ConfigSchema& schema, InferenceConfig& config) {
  schema.add("precision.compute", &config.compute,
             "The type of weights and activations. auto: the type stored in the folder, or bf16 if "
             "that is fp16.",
             {.choices = {"auto", "fp32", "bf16", "fp64"}});
  memory::add_offload_key(schema, "parameters", &config.offload_parameters, "weights",
                          /*or_auto=*/false);
  memory::add_table_rows_key(schema, &config.table_rows);
  memory::add_nvme_path_key(schema, &config.nvme_path);
  schema.add("train.threads", &config.threads, "Number of CPU threads to compute with.",
             {.minimum = 1, .maximum = 1024, .unset = "cores", .per_rank = true});
}

void describe(ConfigSchema& schema, ModelRanksConfig& config) {
  describe(schema, static_cast<InferenceConfig&>(config));
  describe_model_ranks(schema, config.parallel);
}

void prepare(const InferenceConfig& config) {
  prepare_rank(config, 1);
}

void prepare(const InferenceConfig& config, const InferenceRanks& ranks) {
  prepare_rank(config, ranks.local_size());
}

void add_ranks_option(CLI::App& command, std::optional<int>& ranks, const std::string& what) {
  command.add_option(
      "--ranks", ranks,
      what + ". Leave it out if srun, mpirun, torchrun or colossal run starts the ranks");
}

models::ModelSpecification resolve_trained_model(const std::string& folder,
                                                 const std::string& purpose,
                                                 const std::string& adapter) {
  models::ModelRequest request{.path = folder};
  // The adapter of a reward model may have the score head that its model lacks.
  if (const auto adapted = adapters::adapted_model(adapter)) {
    models::ask_for_labels_of(*adapted, request);
  }
  models::ModelSpecification specification = models::resolve_model(request);
  if (specification.weights.empty()) {
    throw ConfigError(fmt::format("{} contains no weights to {} with", folder, purpose));
  }
  if (adapter.empty()) return specification;
  return models::with_adapter(std::move(specification), adapter);
}

void require_texts(const models::ModelSpecification& specification, const std::string& command) {
  if (!specification.transformer.patches) return;
  throw ConfigError(
      fmt::format("{}: this model ({}) reads images, but colossal {} needs a model that reads "
                  "texts; use colossal classify",
                  specification.weights.string(), specification.facts.family, command));
}

void require_decoder(const models::ModelSpecification& specification, const std::string& command) {
  require_texts(specification, command);
  const std::string folder = specification.weights.string();
  if (specification.facts.scores > 0) {
    throw ConfigError(
        fmt::format("{}: this model gives labels or scores to texts and predicts no "
                    "tokens, as colossal {} needs; use colossal classify",
                    folder, command));
  }
  if (specification.facts.causal) return;
  throw ConfigError(
      fmt::format("{}: this model ({}) is an encoder, which predicts masked tokens "
                  "only, but colossal {} needs a model that predicts the next token",
                  folder, specification.facts.family, command));
}

void add_adapter_option(CLI::App& command, std::string& adapter) {
  find_model_of(*command
                     .add_option("--adapter", adapter,
                                 "The folder of an adapter of the model (LoRA or a prefix), as "
                                 "saved by peft or a run with [adapter], or its name on the "
                                 "Hugging Face Hub, if it has been downloaded")
                     ->type_name("DIR"));
}

void add_key_value_type(CLI::App& command, bool& int8) {
  command
      .add_option_function<std::string>(
          "--kv-type",
          [&int8](const std::string& type) {
            if (type != "auto" && type != "int8") {
              throw ConfigError(fmt::format(
                  "--kv-type={}: must be auto (the type that the model computes in) or int8",
                  type));
            }
            int8 = type == "int8";
          },
          "The type of the KV cache: auto (the type that the model computes in), or int8 with a "
          "scale for each head and token, which takes less memory")
      ->default_str("auto");
}

void add_speculation(CLI::App& command, SpeculationArguments& arguments) {
  command
      .add_option("--speculate", arguments.kind,
                  "Speculative decoding: guess several tokens and check them in one forward pass; "
                  "the text stays the same. lookup: guess what followed the last tokens where they "
                  "occurred before. eagle: guess with the head in --draft, which reads the model's "
                  "hidden states. none: do not guess")
      ->capture_default_str();
  find_model_of(*command
                     .add_option("--draft", arguments.draft,
                                 "Guess with this smaller model, which must have the same "
                                 "tokenizer; with --speculate=eagle, with this head, trained by "
                                 "colossal tune draft_head")
                     ->type_name("DIR"));
  command
      .add_option("--num-drafts", arguments.drafts,
                  "Number of tokens to guess for each forward pass")
      ->capture_default_str();
}

namespace {

serve::Speculation::Kind resolve_kind(const SpeculationArguments& arguments) {
  using Kind = serve::Speculation::Kind;
  const bool draft = !arguments.draft.empty();
  if (arguments.kind == "none") return draft ? Kind::model : Kind::none;
  if (arguments.kind == "lookup") {
    if (draft)
      throw ConfigError("--speculate=lookup with --draft: two ways to guess; use only one of them");
    return Kind::lookup;
  }
  if (arguments.kind == "eagle") {
    if (draft) return Kind::head;
    throw ConfigError(
        "--speculate=eagle without --draft: give the folder of a head trained by colossal tune "
        "draft_head for this model");
  }
  throw ConfigError(
      fmt::format("--speculate={}: must be none, lookup or eagle; to guess with a smaller model, "
                  "give --draft=DIR only",
                  arguments.kind));
}

models::ModelSpecification resolve_draft(const std::string& folder, serve::Speculation::Kind kind) {
  if (kind != serve::Speculation::Kind::head) return resolve_trained_model(folder, "guess tokens");
  models::ModelSpecification head = models::resolve_model({.path = folder, .draft_head = true});
  if (!head.weights.empty() && head.newly_initialized.empty()) return head;
  throw ConfigError(fmt::format(
      "--speculate=eagle --draft={}: this folder has no weights of an EAGLE head, which colossal "
      "tune draft_head trains. If it holds a smaller model, leave --speculate=eagle out",
      folder));
}

}  // namespace

OpenedSpeculation open_speculation(const SpeculationArguments& arguments,
                                   const InferenceConfig& config, at::Device device,
                                   const serve::WeightBits& bits) {
  OpenedSpeculation opened{
      .model = nullptr,
      .speculation = {.kind = resolve_kind(arguments), .drafts = arguments.drafts}};
  if (arguments.draft.empty()) return opened;
  const models::ModelSpecification specification =
      resolve_draft(arguments.draft, opened.speculation.kind);
  opened.model = open_model(specification, config, device, bits);
  opened.speculation.model = &**opened.model;
  opened.speculation.facts = specification.facts;
  opened.speculation.type = opened.model->type();
  return opened;
}

void log_acceptance_rate(const serve::Engine& engine) {
  if (engine.options().speculation.kind == serve::Speculation::Kind::none) return;
  const serve::EngineStatistics statistics = engine.statistics();
  const auto guessed = static_cast<double>(std::max<int64_t>(1, statistics.draft_tokens));
  log::info("{} tokens in {} forward passes; {} of {} guessed tokens were right ({:.0f} %)",
            statistics.generated_tokens, statistics.steps, statistics.accepted_tokens,
            statistics.draft_tokens,
            100 * static_cast<double>(statistics.accepted_tokens) / guessed);
}

void add_quantize(CLI::App& command, QuantizeArguments& arguments) {
  command
      .add_option(
          "--quantize", arguments.type,
          "How the weights of linear layers are quantized: auto (as the folder stores them), none "
          "(dequantized to precision.compute), or int8, int4, fp8 or int8-dynamic (int8 inputs "
          "too), quantized while loading. The output head has at least 8 bits")
      ->capture_default_str();
  command.add_option("--quantize-group", arguments.group,
                     fmt::format("How many inputs share a scale, a multiple of {}; 0: all inputs "
                                 "of an output share one [int8, fp8: 0, int4: {}]",
                                 ops::Quantization::kGroupStep, serve::kInt4Group));
}

serve::WeightBits resolve_weight_bits(const QuantizeArguments& arguments) {
  return serve::resolve_weight_bits(arguments.type, arguments.group, kQuantizeNames);
}

std::unique_ptr<serve::InferenceModel> open_model(const models::ModelSpecification& specification,
                                                  const InferenceConfig& config, at::Device device,
                                                  const serve::WeightBits& bits,
                                                  std::function<void(int64_t, int64_t)> progress) {
  serve::InferenceOptions options = inference_options(specification, config, device, bits);
  options.progress = std::move(progress);
  auto model = std::make_unique<serve::InferenceModel>(specification, options);
  describe_weights(*model, specification, bits);
  return model;
}

std::unique_ptr<serve::InferenceModel> open_model_over_ranks(
    const models::ModelSpecification& specification, const ModelRanksConfig& config,
    const Strategy& strategy, InferenceRanks& ranks, const serve::WeightBits& bits,
    const std::function<void(int64_t, int64_t)>& progress) {
  comm::World& world =
      ranks.connect(config.parallel.world, config.parallel.timeout,
                    {{"parameters", fmt::format("{}", specification.facts.parameters)},
                     {"parallel.pp", fmt::format("{}", strategy.pp)},
                     {"parallel.dp", fmt::format("{}", strategy.dp)},
                     {"parallel.sp", fmt::format("{}", strategy.sp)},
                     {"parallel.ep", fmt::format("{}", strategy.ep)},
                     {"parallel.expert_tp", fmt::format("{}", strategy.expert_tp)},
                     {"parallel.zero", fmt::format("{}", strategy.zero)},
                     {"parallel.tp", fmt::format("{}", strategy.tp)},
                     {"parallel.tp_mode", tensor_mode_name(strategy.tensor_mode)},
                     {"parallel.device", config.parallel.world.device},
                     {"precision.compute", config.compute},
                     {"--quantize", describe(bits)}});
  serve::InferenceOptions options = inference_options(specification, config, world.device(), bits);
  options.strategy = strategy;
  if (ranks.is_first()) options.progress = progress;
  auto model = std::make_unique<serve::InferenceModel>(specification, options, world);
  if (ranks.is_first()) describe_weights(*model, specification, bits);
  return model;
}

serve::EngineOptions engine_options(const serve::InferenceModel& model,
                                    const ModelRanksConfig& config, serve::EngineOptions options) {
  options.type = model.type();
  options.device = model.device();
  // Several messages must arrive within the timeout after which a rank counts as lost.
  options.idle_message_interval =
      std::min(options.idle_message_interval, config.parallel.timeout / 4);
  return options;
}

}  // namespace colossal::cli
