#include "colossal/python/language_model_options.h"

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/comm/world.h"
#include "colossal/io/hub_cache.h"
#include "colossal/job/precision.h"
#include "colossal/serve/model_folder.h"
#include "colossal/serve/weight_bits.h"

namespace colossal::python {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 40;

at::ScalarType type_of(const std::string& dtype, const std::filesystem::path& folder) {
  if (dtype == "auto") return serve::compute_type(folder);
  if (dtype != "fp32" && dtype != "bf16" && dtype != "fp64") {
    throw ConfigError(fmt::format("dtype={}: must be auto, fp32, bf16 or fp64", dtype));
  }
  return resolve_precision({.compute = dtype}, /*bf16_instructions=*/false, 1).compute;
}

serve::Speculation::Kind speculation_of(const LanguageModelOptions& options) {
  using Kind = serve::Speculation::Kind;
  const bool has_draft = !options.draft.empty();
  if (options.speculate == "none") return has_draft ? Kind::model : Kind::none;
  if (options.speculate == "lookup" && !has_draft) return Kind::lookup;
  if (options.speculate == "eagle" && has_draft) return Kind::head;
  throw ConfigError(
      fmt::format("speculate={}, draft={}: give speculate=lookup alone, the folder of a smaller "
                  "model as draft alone, or speculate=eagle with the folder of a head as draft",
                  options.speculate, options.draft));
}

const models::ModelSpecification& with_weights(const models::ModelSpecification& found) {
  if (!found.weights.empty() && found.newly_initialized.empty()) return found;
  throw ConfigError(fmt::format(
      "draft={}: this folder lacks weights; give a smaller model, or with speculate=eagle a head "
      "that `colossal tune draft_head` has trained",
      found.weights.string()));
}

}  // namespace

models::ModelSpecification resolve_language_model(const LanguageModelOptions& options,
                                                  const std::filesystem::path& folder) {
  models::ModelSpecification specification = models::resolve_model({.path = folder.string()});
  if (specification.weights.empty()) {
    throw ConfigError(fmt::format("{} contains no weights to generate with", folder.string()));
  }
  if (!specification.reads_texts() || specification.text_tower) {
    throw ConfigError(fmt::format("{}: this model ({}) reads images; an LLM reads texts",
                                  folder.string(), specification.facts.family));
  }
  if (options.max_model_len > specification.facts.positions) {
    throw ConfigError(fmt::format("max_model_len={}: the model supports only {} positions",
                                  options.max_model_len, specification.facts.positions));
  }
  return specification;
}

serve::InferenceOptions inference_options(const LanguageModelOptions& options,
                                          const std::filesystem::path& folder) {
  if (options.device != "auto" && options.device != "cpu" && options.device != "gpu") {
    throw ConfigError(fmt::format("device={}: must be auto, cpu or gpu", options.device));
  }
  const serve::WeightBits bits = serve::resolve_weight_bits(
      options.quantization, options.quantization_group, {"quantization", "quantization_group"});
  const memory::Tiers tiers{.parameters = memory::resolve_shares("parameters", options.offload),
                            .nvme_path = options.nvme_path};
  memory::require_nvme_path(tiers);
  return {.type = type_of(options.dtype, folder),
          .device = comm::device_alone({.device = options.device}),
          .tiers = tiers,
          .quantization = bits.quantization,
          .as_stored = bits.as_stored};
}

nlohmann::json changes_of_generation(const LanguageModelOptions& options) {
  const std::string& text = options.generation_config;
  if (text.empty()) return nlohmann::json::object();
  nlohmann::json fields = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (fields.is_object()) return fields;
  throw ConfigError(
      fmt::format("generation_config={}: must be the fields of a generation_config.json, such as "
                  "{{\"temperature\": 0.6}}",
                  text));
}

DraftModel::DraftModel(const LanguageModelOptions& options, const serve::InferenceOptions& like)
    : specification(models::resolve_model(
          {.path = io::find_model(options.draft).string(),
           .draft_head = speculation_of(options) == serve::Speculation::Kind::head})),
      model(with_weights(specification), like) {}

serve::EngineOptions engine_options(const LanguageModelOptions& options,
                                    const serve::InferenceModel& model, const DraftModel* draft) {
  serve::EngineOptions engine{.max_num_seqs = options.max_num_seqs,
                              .max_batch_tokens = options.max_batch_tokens,
                              .max_model_len = options.max_model_len,
                              .max_queue = kNoLimit,
                              .prefix_cache = options.prefix_cache,
                              .batch_invariant = options.batch_invariant,
                              .int8_key_values = options.kv_dtype == "int8",
                              .type = model.type(),
                              .device = model.device()};
  engine.speculation = {.kind = speculation_of(options), .drafts = options.num_drafts};
  if (draft) {
    engine.speculation.model = &*draft->model;
    engine.speculation.facts = draft->specification.facts;
    engine.speculation.type = draft->model.type();
  }
  if (options.kv_dtype != "auto" && options.kv_dtype != "int8") {
    throw ConfigError(
        fmt::format("kv_dtype={}: must be auto (that of activations) or int8", options.kv_dtype));
  }
  if (options.kv_bytes.empty()) return engine;
  const auto bytes = parse_bytes(options.kv_bytes);
  if (!bytes || bytes->bytes < 1) {
    throw ConfigError(fmt::format("kv_bytes={}: must be a size such as 2GiB", options.kv_bytes));
  }
  engine.cache_bytes = bytes->bytes;
  return engine;
}

}  // namespace colossal::python
