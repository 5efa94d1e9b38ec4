// Formats the responses of OpenAI's POST /v1/responses.
#pragma once

#include "colossal/server/completion_json.h"

namespace colossal::server {

// An answer has items: its reasoning, its message and its calls of functions. A stream has events
// that begin, extend and end items, and at last the whole response.
class ResponsesWriter : public AnswerWriter {
 public:
  // body: of the original request; the response repeats its settings. request, model: must outlive
  // the object.
  ResponsesWriter(Json body, const GenerationRequest& request, const ServedModel& model);

  const std::string& id() const override { return id_; }
  Json whole(std::vector<WholeAnswer> answers, const TokenCounts& counts) override;
  std::string begin(int64_t index, const TokenCounts& counts) override;
  std::string part(int64_t index, const AnswerDelta& delta, const Answer& answer,
                   const TokenCounts& counts) override;
  std::string end(const TokenCounts& counts) override;
  std::string error(const ApiError& error) override;

 private:
  // Returns the response without its output and token counts. status: "in_progress", "completed",
  // "incomplete" or "failed".
  Json response(const char* status) const;
  // Returns the whole response with `output_`.
  Json complete(const TokenCounts& counts) const;
  // Returns an event of the stream; its "type" is the name of the event.
  std::string event(const char* name, const Json& data);
  // Returns the fields that name the open item in its events.
  Json place() const;
  // Adds an item to output_ and returns the events that begin it, after the end of the item before.
  std::string open_item(Json item);
  // Returns the events that end the open item.
  std::string close_item();
  // Returns the events of an item of text, "message" or "reasoning".
  std::string text_events(const char* type, const std::string& text,
                          const std::vector<LoggedToken>& logged);
  std::string call_events(const CallDelta& call);
  bool is_open(const char* type) const;
  // The part of the open item in which its text is.
  Json& open_part() { return output_.back()["content"][0]; }

  const Json body_;
  const GenerationRequest& request_;
  const CompletionJson chat_;  // for log-probabilities
  const std::string id_;
  const int64_t created_;        // in seconds since 1970
  Json output_ = Json::array();  // the items so far
  bool item_is_open_ = false;    // the last item of output_ has not ended
  bool is_cut_ = false;          // the answer has ended at the limit of its tokens
  int64_t num_events_ = 0;
};

}  // namespace colossal::server
