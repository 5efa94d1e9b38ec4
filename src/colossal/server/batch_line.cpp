#include "colossal/server/batch_line.h"

#include <algorithm>
#include <array>
#include <optional>

#include "colossal/server/answer.h"
#include "colossal/server/completion.h"
#include "colossal/server/completion_json.h"
#include "colossal/server/embedding_request.h"
#include "colossal/server/pooled_texts.h"

namespace colossal::server {
namespace {

constexpr int64_t kDefaultNewTokens = 100;
constexpr int64_t kMostLogprobs = 20;

// Fields of a line in the short form that a request may have, but that ask for more than one answer
// or for what the output has no place for.
constexpr std::array kNotInShortForm{"n",
                                     "best_of",
                                     "stream",
                                     "stream_options",
                                     "echo",
                                     "prompt_logprobs",
                                     "return_token_ids",
                                     "top_logprobs",
                                     "use_beam_search"};

bool is_openai_form(const Json& line) {
  const bool is_short = line.contains("prompt") || line.contains("messages");
  return !is_short && (line.contains("custom_id") || line.contains("body"));
}

Json parse_line(const std::string& line) {
  try {
    return parse_body(line);
  } catch (const ApiError& error) {
    std::string message = error.what();
    if (message.starts_with("the body ")) message.replace(0, 8, "the line");
    throw ApiError(400, message, error.parameter);
  }
}

// Adds what the line does not say itself.
void add_defaults(Json& body, const BatchDefaults& defaults, const ServedModel& model) {
  const auto lacks = [&](const char* name) { return !body.contains(name) || body[name].is_null(); };
  if (defaults.shows_special && lacks("skip_special_tokens")) body["skip_special_tokens"] = false;
  if (!defaults.truncate || !lacks("truncate_prompt_tokens")) return;
  int64_t wanted = model.generation().max_new_tokens.value_or(kDefaultNewTokens);
  for (const char* name : {"max_completion_tokens", "max_tokens"}) {
    if (!lacks(name) && body[name].is_number_integer()) wanted = body[name].get<int64_t>();
  }
  body["truncate_prompt_tokens"] = std::max<int64_t>(1, model.max_length() - wanted);
}

// Each line has a seed of its own.
void set_seed(GenerationRequest& request, int64_t index, const BatchDefaults& defaults) {
  if (request.has_seed) return;
  request.sampling.seed = defaults.seed + static_cast<uint64_t>(index);
}

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", name);
  }
  return text;
}

// Returns the fields of repeat_line().
Json line_with(const Json& line, const Json& added) {
  Json whole = Json::object();
  for (const auto& [name, value] : line.items()) {
    std::string kept = name;
    while (added.contains(kept) || (kept != name && line.contains(kept))) kept = "input_" + kept;
    whole[kept] = value;
  }
  whole.update(added);
  return whole;
}

Json logprobs_of(const std::vector<LoggedToken>& tokens) {
  Json all = Json::array();
  for (const LoggedToken& logged : tokens) {
    Json top = Json::array();
    for (const serve::TokenLogprob& other : logged.token->top) {
      top.push_back({{"token", other.token}, {"logprob", other.logprob}});
    }
    all.push_back(
        {{"token", logged.id}, {"logprob", logged.token->logprob}, {"top", std::move(top)}});
  }
  return all;
}

// Writes the answer to a line {"prompt": ...} or {"messages": ...}: the line with further fields.
class ShortWriter : public AnswerWriter {
 public:
  ShortWriter(Json line, std::shared_ptr<const GenerationRequest> request)
      : line_(std::move(line)), request_(std::move(request)) {}

  const std::string& id() const override { return id_; }
  Json whole(std::vector<WholeAnswer> answers, const TokenCounts&) override {
    const auto& [all, answer] = answers.front();
    Json added = Json::object();
    if (request_->beams.width > 1) {
      for (const WholeAnswer& beam : answers) {
        added["beams"].push_back({{"completion", beam.all.text},
                                  {"score", beam.answer.beam_score()},
                                  {"finish_reason", beam.answer.finish_reason()}});
      }
    }
    if (!all.reasoning.empty()) added["reasoning_content"] = all.reasoning;
    added["completion"] = all.text;
    added["completion_tokens"] = answer.num_tokens();
    added["finish_reason"] = answer.finish_reason();
    for (const CallDelta& call : all.calls) added["tool_calls"].push_back(whole_call(call));
    if (request_->logprobs >= 0) added["logprobs"] = logprobs_of(all.logged);
    return line_with(line_, added);
  }

  // There are no streams.
  std::string begin(int64_t, const TokenCounts&) override { return {}; }
  std::string part(int64_t, const AnswerDelta&, const Answer&, const TokenCounts&) override {
    return {};
  }
  std::string end(const TokenCounts&) override { return {}; }
  std::string error(const ApiError&) override { return {}; }

 private:
  const Json line_;
  const std::shared_ptr<const GenerationRequest> request_;
  const std::string id_;
};

// Takes the response to the request of a line.
class BatchReply : public Reply {
 public:
  using Taken = std::function<void(int status, std::string body)>;
  explicit BatchReply(Taken taken) : taken_(std::move(taken)) {}
  void send(int status, std::string_view, std::string body, Headers) override {
    taken_(status, std::move(body));
  }
  void begin_stream(std::string_view, Headers) override {}
  void write_part(std::string_view) override {}
  void end_stream() override {}
  void on_abandoned(std::function<void()>) override {}

 private:
  Taken taken_;
};

// Calls done() with what `make_line` makes of the body of a response, or failed().
std::shared_ptr<Reply> make_reply(std::function<std::string(std::string body)> make_line,
                                  BatchLine::Done done, BatchLine::Failed failed) {
  return std::make_shared<BatchReply>([make_line = std::move(make_line), done = std::move(done),
                                       failed = std::move(failed)](int status, std::string body) {
    constexpr int kOk = 200;
    if (status == kOk) return done(make_line(std::move(body)));
    const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
    failed(status, json.value("error", Json::object()).value("message", body));
  });
}

// Waits until the rule of a request is compiled. Throws ApiError if it is invalid.
void finish_rule(const GenerationRequest& request) {
  if (!request.rule) return;
  request.rule->wait();
  request.rule->get(request.rule_field);
}

// A line {"prompt": ...} or {"messages": ...}.
class ShortLine : public BatchLine {
 public:
  ShortLine(Json line, int64_t index, const BatchDefaults& defaults, const ServedModel& model,
            RuleCache& rules)
      : line_(std::move(line)),
        model_(model),
        request_(std::make_shared<const GenerationRequest>(read(index, defaults, rules))) {}

  int64_t num_sequences() const override { return request_->beams.width; }

  void submit(serve::Engine& engine, Metrics& metrics, Done done, Failed failed) override {
    const auto reply =
        make_reply([](std::string body) { return body; }, std::move(done), std::move(failed));
    std::make_shared<Completion>(request_, std::make_unique<ShortWriter>(line_, request_), model_,
                                 engine, metrics, reply)
        ->start();
  }

 private:
  // Reads line_ as the body of a request to the server.
  GenerationRequest read(int64_t index, const BatchDefaults& defaults, RuleCache& rules) {
    const bool chats = line_.contains("messages") && !line_["messages"].is_null();
    if (chats == (line_.contains("prompt") && !line_["prompt"].is_null())) {
      std::vector<std::string> names;
      for (const auto& [name, value] : line_.items()) names.push_back(name);
      throw ApiError(400,
                     chats ? "has both \"prompt\" and \"messages\"; give one of them"
                           : fmt::format("has neither \"prompt\" nor \"messages\", only {}",
                                         names.empty() ? "no fields" : quoted(names)),
                     "prompt");
    }
    if (chats && !model_.chat_template()) {
      throw ApiError(
          400,
          fmt::format("{} has no chat template (neither chat_template.jinja nor one in "
                      "tokenizer_config.json), which \"messages\" needs; use \"prompt\" instead",
                      model_.name()),
          "messages");
    }
    Json body = line_;
    for (const char* name : kNotInShortForm) {
      if (!body.contains(name)) continue;
      throw ApiError(400,
                     fmt::format("{}: not supported in lines of this form, which have one answer; "
                                 "use OpenAI's form, with \"custom_id\" and \"body\"",
                                 name),
                     name);
    }
    // The model is chosen on the command line, and log-probabilities have one form for both kinds.
    body.erase("model");
    body.erase("logprobs");
    Fields fields(line_);
    const int64_t logprobs =
        fields.integer("logprobs", 0, kMostLogprobs).value_or(defaults.logprobs);
    const bool has_limit = fields.find("max_tokens") || fields.find("max_completion_tokens");
    const serve::GenerationSettings& settings = model_.generation();
    if (!has_limit && !settings.max_new_tokens && !settings.max_length) {
      body["max_tokens"] = kDefaultNewTokens;
    }
    add_defaults(body, defaults, model_);
    const TokenLimit limit = has_limit ? TokenLimit::exact : TokenLimit::at_most;
    GenerationRequest request = chats ? read_chat_request(body, model_, rules, limit)
                                      : read_completion_request(body, model_, rules, limit);
    if (request.prompts.size() != 1) {
      throw ApiError(400, "prompt: a line has one prompt; give each prompt a line", "prompt");
    }
    set_seed(request, index, defaults);
    request.logprobs = logprobs;
    if (request.beams.width > 1) request.n = request.best_of = request.beams.width;
    request.is_logged = false;
    finish_rule(request);
    note_fields(request);
    return request;
  }

  void note_fields(const GenerationRequest& request) {
    std::vector<std::string> unknown = request.unknown_fields;
    if (line_.contains("model")) unknown.emplace_back("model");
    for (const std::string& name : unknown) {
      const bool is_renamed =
          name == "completion" || name == "completion_tokens" || name == "finish_reason";
      notes_.push_back(
          is_renamed
              ? fmt::format("lines have a field \"{0}\", which changes no answer: the output "
                            "has its own, and keeps this one as \"input_{0}\"",
                            name)
              : fmt::format("lines have a field \"{}\", which changes no answer: the output "
                            "repeats it",
                            name));
    }
  }

  const Json line_;
  const ServedModel& model_;
  const std::shared_ptr<const GenerationRequest> request_;
};

// The line of the output in OpenAI's form. error: null if there is none.
std::string openai_line(const Json& custom_id, int64_t index, int status, Json body, Json error) {
  Json response{{"status_code", status},
                {"request_id", fmt::format("req_{}", index + 1)},
                {"body", std::move(body)}};
  return to_text({{"id", fmt::format("batch_req_{}", index + 1)},
                  {"custom_id", custom_id},
                  {"response", std::move(response)},
                  {"error", std::move(error)}});
}

// A line of OpenAI's form.
class OpenAiLine : public BatchLine {
 public:
  OpenAiLine(const Json& line, int64_t index, const BatchDefaults& defaults,
             const ServedModel& model, RuleCache& rules)
      : index_(index), model_(model) {
    Fields fields(line);
    const auto id = fields.string("custom_id");
    if (!id) throw ApiError(400, "custom_id is missing", "custom_id");
    custom_id_ = *id;
    fields.refuse_unless("method", "POST", "must be \"POST\"");
    const std::string url = fields.string("url").value_or("");
    const Json* given = fields.find("body");
    if (!given || !given->is_object()) refuse_type("body", "an object", given ? *given : Json());
    for (const std::string& name : fields.unknown()) note_unknown(name);
    Json body = *given;
    if (body.contains("model") && body["model"] != model.name()) {
      notes_.push_back(fmt::format("lines ask for the model {}; they are answered by {}",
                                   to_text(body["model"]), model.name()));
      body.erase("model");
    }
    if (url == "/v1/embeddings") {
      read_embeddings(body);
      return;
    }
    if (url != "/v1/chat/completions" && url != "/v1/completions") {
      throw ApiError(400,
                     fmt::format("url = \"{}\": must be /v1/chat/completions, /v1/completions or "
                                 "/v1/embeddings",
                                 url),
                     "url");
    }
    read_generation(std::move(body), url == "/v1/chat/completions", defaults, rules);
  }

  int64_t num_sequences() const override {
    if (embedding_) return std::ssize(embedding_->inputs);
    return std::ssize(generation_->prompts) *
           std::max(generation_->best_of, generation_->beams.width);
  }

  void submit(serve::Engine& engine, Metrics& metrics, Done done, Failed failed) override {
    const auto reply = make_reply(
        [id = custom_id_, index = index_](const std::string& body) {
          return openai_line(id, index, 200, Json::parse(body), nullptr);
        },
        std::move(done), std::move(failed));
    if (generation_) {
      auto writer = std::make_unique<CompletionJson>(*generation_, model_);
      std::make_shared<Completion>(generation_, std::move(writer), model_, engine, metrics, reply)
          ->start();
      return;
    }
    PooledTextsRequest texts{.model = embedding_->model,
                             .texts = {},
                             .pooling = embedding_->pooling,
                             .priority = embedding_->priority,
                             .cache_salt = embedding_->cache_salt};
    for (const std::vector<int32_t>& tokens : embedding_->inputs) texts.texts.push_back({tokens});
    std::make_shared<PooledTexts>(
        std::move(texts),
        [read = *embedding_](const auto& results) { return answer_embeddings(read, results); },
        engine, metrics, reply)
        ->start();
  }

 private:
  void read_generation(Json body, bool chats, const BatchDefaults& defaults, RuleCache& rules) {
    if (!model_.generates()) {
      throw ApiError(400, "this model predicts no next token: it answers /v1/embeddings only",
                     "url");
    }
    const bool has_limit = body.contains("max_tokens") || body.contains("max_completion_tokens");
    add_defaults(body, defaults, model_);
    const TokenLimit limit = has_limit ? TokenLimit::exact : TokenLimit::at_most;
    GenerationRequest request = chats ? read_chat_request(body, model_, rules, limit)
                                      : read_completion_request(body, model_, rules, limit);
    if (request.stream) {
      throw ApiError(400, "stream: the output of a batch is no stream; leave it out", "stream");
    }
    request.is_logged = false;
    set_seed(request, index_, defaults);
    finish_rule(request);
    for (const std::string& name : request.unknown_fields) note_unknown("body." + name);
    generation_ = std::make_shared<const GenerationRequest>(std::move(request));
  }
  void read_embeddings(const Json& body) {
    if (model_.labels()) {
      throw ApiError(400, "this model gives texts labels and no embeddings", "url");
    }
    embedding_ = read_embedding_request(body, model_);
    for (const std::string& name : embedding_->unknown_fields) note_unknown("body." + name);
  }
  void note_unknown(const std::string& name) {
    notes_.push_back(fmt::format("lines have a field \"{}\", which changes no answer", name));
  }

  int64_t index_;
  const ServedModel& model_;
  std::string custom_id_;
  std::shared_ptr<const GenerationRequest> generation_;  // one of these two is set
  std::optional<EmbeddingRequest> embedding_;
};

}  // namespace

std::shared_ptr<BatchLine> read_batch_line(const std::string& line, int64_t index,
                                           const BatchDefaults& defaults, const ServedModel& model,
                                           RuleCache& rules) {
  Json json = parse_line(line);
  if (is_openai_form(json)) {
    return std::make_shared<OpenAiLine>(json, index, defaults, model, rules);
  }
  if (!model.generates()) {
    throw ApiError(400,
                   "this model predicts no next token: use colossal classify, or lines in "
                   "OpenAI's form for /v1/embeddings");
  }
  return std::make_shared<ShortLine>(std::move(json), index, defaults, model, rules);
}

std::string repeat_line(const Json& line, const Json& added) {
  return to_text(line_with(line, added));
}

std::string failed_batch_line(const std::string& line, int64_t index, int status,
                              const std::string& message) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return to_text({{"input", line}, {"error", message}});
  if (!is_openai_form(json)) return repeat_line(json, {{"error", message}});
  const ApiError error(status, message);
  return openai_line(json.value("custom_id", Json()), index, status, Json::parse(error.json()),
                     {{"code", std::to_string(status)}, {"message", message}});
}

}  // namespace colossal::server
