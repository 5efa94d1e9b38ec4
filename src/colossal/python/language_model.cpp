#include "colossal/python/language_model.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <mutex>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/io/hub_cache.h"
#include "colossal/models/labels.h"
#include "colossal/python/model_ranks.h"
#include "colossal/serve/forward_pass.h"
#include "colossal/serve/inference_model.h"
#include "colossal/server/completion.h"
#include "colossal/server/embedding_request.h"
#include "colossal/server/pooled_texts.h"

namespace colossal::python {
namespace {

constexpr size_t kMostAdapters = 1024;

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
    constexpr int kServerErrors = 500;
    if (error.status >= kServerErrors) throw Error(error.what());
    throw ConfigError(error.what());
  }
}

std::unique_ptr<ModelRanks> ranks_of(const LanguageModelOptions& options,
                                     const models::ModelFacts& facts) {
  if (options.parallel.empty()) return nullptr;
  return connect_model_ranks(options.parallel, facts,
                             {{"parameters", fmt::format("{}", facts.parameters)},
                              {"dtype", options.dtype},
                              {"quantization", options.quantization}});
}

serve::InferenceModel open_model(const models::ModelSpecification& specification,
                                 serve::InferenceOptions options, const ModelRanks* ranks) {
  if (!ranks) return serve::InferenceModel(specification, options);
  options.strategy = ranks->strategy;
  options.device = ranks->world->device();
  return serve::InferenceModel(specification, options, *ranks->world);
}

// Keeps heartbeats within the timeout of the ranks, as `colossal serve` does.
void set_times(serve::EngineOptions& options, const ModelRanks& ranks) {
  const std::chrono::milliseconds timeout = ranks.config.timeout;
  options.heartbeat.interval = std::min(options.heartbeat.interval, timeout / 4);
  options.heartbeat.timeout = std::min(options.heartbeat.timeout, timeout / 2);
  options.idle_message_interval = std::min(options.idle_message_interval, timeout / 4);
}

void refuse_unknown(const std::vector<std::string>& fields) {
  if (fields.empty()) return;
  throw ConfigError(fmt::format("\"{}\" is no setting of a request", fields.front()));
}

}  // namespace

struct LanguageModel::Parts {
  explicit Parts(const LanguageModelOptions& options)
      : folder(std::filesystem::weakly_canonical(io::find_model(options.folder))),
        specification(resolve_language_model(options, folder)),
        served(text::ModelFolder(folder), name_of(folder), specification.facts.positions,
               specification.facts.vocabulary, specification.facts.causal,
               specification.facts.scores > 0 ? std::optional(models::labels_of(specification))
                                              : std::nullopt,
               serve::read_generation_settings(text::ModelFolder(folder),
                                               specification.facts.vocabulary,
                                               changes_of_generation(options))),
        metrics(served.name()),
        ranks(ranks_of(options, specification.facts)),
        model(open_model(specification, inference_options(options, folder), ranks.get())) {
    if (ranks && !ranks->leads()) {
      follower = std::async(std::launch::async, [this] {
        serve::follow(*model, specification.facts, *model.ranks(), /*around_stage=*/{},
                      [this](const auto& adapter) { return model.load_adapter(adapter); });
      });
      return;
    }
    if (!options.draft.empty()) {
      draft = std::make_unique<DraftModel>(options, inference_options(options, folder));
    }
    start_engine(options);
  }

  void start_engine(const LanguageModelOptions& options) {
    serve::EngineOptions of_engine = engine_options(options, model, draft.get());
    if (ranks) set_times(of_engine, *ranks);
    engine = std::make_unique<serve::Engine>(*model, specification.facts, of_engine, model.ranks());
    served.set_decoder_prompt(std::ssize(specification.facts.decoder_prompt));
    served.set_max_length(engine->options().max_model_len);
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

  void start(server::PooledTextsRequest texts, server::MakeAnswer answer,
             const std::shared_ptr<Generation>& generation) {
    std::make_shared<server::PooledTexts>(std::move(texts), std::move(answer), *engine, metrics,
                                          make_reply(generation))
        ->start();
  }

  const std::filesystem::path folder;
  const models::ModelSpecification specification;
  server::ServedModel served;
  server::Metrics metrics;
  std::mutex finding_rules;
  server::RuleCache rules;
  const std::unique_ptr<ModelRanks> ranks;  // null: this process holds the whole model
  serve::InferenceModel model;
  std::unique_ptr<DraftModel> draft;      // null: none
  std::unique_ptr<serve::Engine> engine;  // null on ranks that follow
  std::future<void> follower;             // on those ranks
};

LanguageModel::LanguageModel(const LanguageModelOptions& options)
    : parts_(std::make_unique<Parts>(options)) {
  if (!leads()) return;
  for (const auto& [name, folder] : options.adapters) load_adapter(name, folder);
}

LanguageModel::~LanguageModel() {
  try {
    close();
  } catch (const std::exception& error) {
    log::error("{}", error.what());
  }
}

bool LanguageModel::leads() const {
  const std::shared_lock lock(closing_);
  return parts_ && parts_->engine;
}

LanguageModel::Parts& LanguageModel::open_parts() const {
  if (!parts_) throw Error("this LLM is closed");
  if (!parts_->engine) {
    throw ConfigError(
        fmt::format("rank {} holds a part of the model and follows rank 0: make this call on rank "
                    "0 only (LLM.leads)",
                    parts_->ranks->world->rank()));
  }
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
                                         *parts.engine, parts.metrics, make_reply(generation))
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
    const server::MakeAnswer take = [request,
                                     generation](const std::vector<std::vector<double>>& found) {
      for (const std::vector<double>& embedding : found) {
        generation->add(server::data_of(request, embedding).get<std::vector<float>>());
      }
      return server::Json();
    };
    parts.start(std::move(texts), take, generation);
    return generation;
  });
}

std::shared_ptr<Generation> LanguageModel::classify(const std::string& body) {
  return pool(body, server::read_classify_request);
}

std::shared_ptr<Generation> LanguageModel::score(const std::string& body) {
  return pool(body, server::read_score_request);
}

std::shared_ptr<Generation> LanguageModel::pool(const std::string& body, ReadScoreRequest read) {
  const std::shared_lock lock(closing_);
  Parts& parts = open_parts();
  return reading([&] {
    server::ScoreRequest request = read(server::parse_body(body), parts.served);
    refuse_unknown(request.unknown_fields);
    auto generation = std::make_shared<Generation>();
    parts.start(std::move(request.texts), std::move(request.answer), generation);
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
  return open_parts().engine->options().max_model_len;
}

serve::EngineStatistics LanguageModel::statistics() const {
  const std::shared_lock lock(closing_);
  return open_parts().engine->statistics();
}

void LanguageModel::close() {
  const std::unique_lock lock(closing_);
  const std::unique_ptr<Parts> parts = std::move(parts_);
  if (parts && parts->follower.valid()) parts->follower.get();
}

}  // namespace colossal::python
