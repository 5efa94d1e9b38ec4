#include "colossal/python/language_model.h"

#include <filesystem>
#include <mutex>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/comm/world.h"
#include "colossal/io/hub_cache.h"
#include "colossal/job/precision.h"
#include "colossal/models/families.h"
#include "colossal/models/labels.h"
#include "colossal/serve/inference_model.h"
#include "colossal/serve/model_folder.h"
#include "colossal/serve/weight_bits.h"
#include "colossal/server/completion.h"
#include "colossal/server/embedding_request.h"
#include "colossal/server/pooled_texts.h"

namespace colossal::python {
namespace {

constexpr size_t kMostAdapters = 1024;
constexpr int64_t kNoLimit = int64_t{1} << 40;

models::ModelSpecification resolve(const LanguageModelOptions& options,
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

at::ScalarType type_of(const std::string& dtype, const std::filesystem::path& folder) {
  if (dtype == "auto") return serve::compute_type(folder);
  if (dtype != "fp32" && dtype != "bf16" && dtype != "fp64") {
    throw ConfigError(fmt::format("dtype={}: must be auto, fp32, bf16 or fp64", dtype));
  }
  return resolve_precision({.compute = dtype}, /*bf16_instructions=*/false, 1).compute;
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

serve::EngineOptions engine_options(const LanguageModelOptions& options,
                                    const serve::InferenceModel& model) {
  serve::EngineOptions engine{.max_num_seqs = options.max_num_seqs,
                              .max_batch_tokens = options.max_batch_tokens,
                              .max_model_len = options.max_model_len,
                              .max_queue = kNoLimit,
                              .prefix_cache = options.prefix_cache,
                              .batch_invariant = options.batch_invariant,
                              .int8_key_values = options.kv_dtype == "int8",
                              .type = model.type(),
                              .device = model.device()};
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

nlohmann::json changes_of_settings(const std::string& text) {
  if (text.empty()) return nlohmann::json::object();
  nlohmann::json fields = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (fields.is_object()) return fields;
  throw ConfigError(
      fmt::format("generation_config={}: must be the fields of a generation_config.json, such as "
                  "{{\"temperature\": 0.6}}",
                  text));
}

std::string name_of(const std::filesystem::path& folder) {
  const std::string name = io::hub_name_of(folder);
  return name.empty() ? folder.filename().string() : name;
}

// Calls `read`. What the server would answer with is an exception here.
template <class Read>
auto reading(Read read) {
  try {
    return read();
  } catch (const server::ApiError& error) {
    throw ConfigError(error.what());
  }
}

void refuse_unknown(const std::vector<std::string>& fields) {
  if (fields.empty()) return;
  throw ConfigError(fmt::format("\"{}\" is no setting of a request", fields.front()));
}

}  // namespace

struct LanguageModel::Parts {
  explicit Parts(const LanguageModelOptions& options)
      : folder(std::filesystem::weakly_canonical(io::find_model(options.folder))),
        specification(resolve(options, folder)),
        served(text::ModelFolder(folder), name_of(folder), specification.facts.positions,
               specification.facts.vocabulary, specification.facts.causal,
               specification.facts.scores > 0 ? std::optional(models::labels_of(specification))
                                              : std::nullopt,
               serve::read_generation_settings(text::ModelFolder(folder),
                                               specification.facts.vocabulary,
                                               changes_of_settings(options.generation_config))),
        metrics(served.name()),
        model(specification, inference_options(options, folder)),
        engine(*model, specification.facts, engine_options(options, model)) {
    served.set_decoder_prompt(std::ssize(specification.facts.decoder_prompt));
    served.set_max_length(engine.options().max_model_len);
    served.set_adapters(std::make_unique<server::AdapterRegistry>(
        [this](const std::filesystem::path& adapter) {
          const auto form =
              std::make_shared<const server::ChatForm>(served.form_of_adapter(adapter));
          return server::LoadedAdapter{model.load_adapter(adapter), form};
        },
        kMostAdapters));
  }
  // Requests that wait for their rules must not come to the engine any more.
  ~Parts() { rules.stop(); }

  const std::filesystem::path folder;
  const models::ModelSpecification specification;
  server::ServedModel served;
  server::Metrics metrics;
  std::mutex finding_rules;
  server::RuleCache rules;
  serve::InferenceModel model;
  serve::Engine engine;
};

LanguageModel::LanguageModel(const LanguageModelOptions& options)
    : parts_(std::make_unique<Parts>(options)) {
  for (const auto& [name, folder] : options.adapters) load_adapter(name, folder);
}

LanguageModel::~LanguageModel() {
  close();
}

LanguageModel::Parts& LanguageModel::open_parts() const {
  if (!parts_) throw Error("this LLM is closed");
  return *parts_;
}

std::shared_ptr<Generation> LanguageModel::complete(const std::string& body) {
  return generate(body, /*chats=*/false);
}

std::shared_ptr<Generation> LanguageModel::chat(const std::string& body) {
  return generate(body, /*chats=*/true);
}

std::shared_ptr<Generation> LanguageModel::generate(const std::string& body, bool chats) {
  const std::shared_lock lock(closing_);
  Parts& parts = open_parts();
  if (!parts.served.generates()) {
    throw ConfigError(fmt::format("{} predicts no next token: use embed()", parts.served.name()));
  }
  return reading([&] {
    const auto request = std::make_shared<server::GenerationRequest>([&] {
      const std::lock_guard finding(parts.finding_rules);
      const server::Json fields = server::parse_body(body);
      return chats ? server::read_chat_request(fields, parts.served, parts.rules)
                   : server::read_completion_request(fields, parts.served, parts.rules);
    }());
    refuse_unknown(request->unknown_fields);
    request->is_logged = false;
    request->return_token_ids = true;
    auto generation = std::make_shared<Generation>();
    std::make_shared<server::Completion>(request, make_writer(generation), parts.served,
                                         parts.engine, parts.metrics, make_reply(generation))
        ->start();
    return generation;
  });
}

std::shared_ptr<Generation> LanguageModel::embed(const std::string& body) {
  const std::shared_lock lock(closing_);
  Parts& parts = open_parts();
  if (parts.served.labels()) {
    throw ConfigError(
        fmt::format("{} gives texts labels or scores, and has no embeddings", parts.served.name()));
  }
  return reading([&] {
    const auto request = server::read_embedding_request(server::parse_body(body), parts.served);
    refuse_unknown(request.unknown_fields);
    server::PooledTextsRequest texts{.model = request.model,
                                     .texts = {},
                                     .pooling = request.pooling,
                                     .priority = request.priority,
                                     .adapter = request.adapter,
                                     .cache_salt = request.cache_salt};
    for (const std::vector<int32_t>& tokens : request.inputs) texts.texts.push_back({tokens});
    auto generation = std::make_shared<Generation>();
    const auto take = [request, generation](const std::vector<std::vector<double>>& found) {
      for (const std::vector<double>& embedding : found) {
        generation->add(server::data_of(request, embedding).get<std::vector<float>>());
      }
      return server::Json();
    };
    std::make_shared<server::PooledTexts>(std::move(texts), take, parts.engine, parts.metrics,
                                          make_reply(generation))
        ->start();
    return generation;
  });
}

void LanguageModel::cancel(Generation& generation) {
  const std::shared_lock lock(closing_);
  generation.cancel();
}

std::vector<int32_t> LanguageModel::encode(const std::string& text) const {
  const std::shared_lock lock(closing_);
  return reading([&] { return open_parts().served.encode(text, /*add_special_tokens=*/true); });
}

std::string LanguageModel::decode(const std::vector<int32_t>& tokens) const {
  const std::shared_lock lock(closing_);
  return open_parts().served.tokenizer().decode(tokens);
}

void LanguageModel::load_adapter(const std::string& name, const std::string& folder) {
  const std::shared_lock lock(closing_);
  Parts& parts = open_parts();
  if (name == parts.served.name()) {
    throw ConfigError(
        fmt::format("the adapter \"{0}\": {0} is the model; choose another name", name));
  }
  reading([&] { parts.served.adapters().load(name, io::find_model(folder)); });
}

void LanguageModel::unload_adapter(const std::string& name) {
  const std::shared_lock lock(closing_);
  reading([&] { open_parts().served.adapters().unload(name); });
}

std::string LanguageModel::name() const {
  const std::shared_lock lock(closing_);
  return open_parts().served.name();
}

int64_t LanguageModel::max_model_len() const {
  const std::shared_lock lock(closing_);
  return open_parts().engine.options().max_model_len;
}

serve::EngineStatistics LanguageModel::statistics() const {
  const std::shared_lock lock(closing_);
  return open_parts().engine.statistics();
}

void LanguageModel::close() {
  const std::unique_lock lock(closing_);
  parts_.reset();
}

}  // namespace colossal::python
