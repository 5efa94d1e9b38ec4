// Formats the responses of ollama's POST /api/chat and POST /api/generate.
#pragma once

#include <chrono>

#include "colossal/server/completion_json.h"

namespace colossal::server {

// Returns the response to a request that only loads or unloads the model. is_chat: of /api/chat.
Json ollama_loaded(const std::string& model, bool is_chat, const char* reason);

// A stream has a JSON object on each line; the last one has the token counts and times.
class OllamaWriter : public AnswerWriter {
 public:
  // is_chat: of /api/chat. request, model: must outlive the object.
  OllamaWriter(bool is_chat, const GenerationRequest& request, const ServedModel& model);

  const std::string& id() const override { return id_; }
  std::string_view content_type() const override { return "application/x-ndjson"; }
  Json whole(std::vector<WholeAnswer> answers, const TokenCounts& counts) override;
  std::string begin(int64_t, const TokenCounts&) override { return {}; }
  std::string part(int64_t index, const AnswerDelta& delta, const Answer& answer,
                   const TokenCounts& counts) override;
  std::string end(const TokenCounts& counts) override;
  std::string error(const ApiError& error) override;

 private:
  // Returns a response with a piece of the answer. calls: whole tool calls.
  Json piece(const AnswerDelta& delta, Json calls, bool done) const;
  // Sets what the last object of a response has: why the answer ended, token counts and times.
  void set_end(Json& json, const TokenCounts& counts) const;
  // Adds parts of calls. A call is sent when it is whole: its arguments are an object.
  void collect(const AnswerDelta& delta);
  Json take_calls();

  const bool is_chat_;
  const GenerationRequest& request_;
  const CompletionJson completion_;  // for log-probabilities
  const std::string id_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<CallDelta> calls_;  // that were not sent yet
  const char* reason_ = "stop";   // why the answer has ended
  serve::Usage usage_{};          // of the answer, once it has ended
};

}  // namespace colossal::server
