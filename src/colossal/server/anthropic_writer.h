// Formats the responses of Anthropic's POST /v1/messages.
#pragma once

#include "colossal/server/answer_writer.h"

namespace colossal::server {

// An answer has blocks: its reasoning ("thinking"), its text and its tool calls. A stream begins
// and ends each block.
class AnthropicWriter : public AnswerWriter {
 public:
  // request: must outlive the object.
  explicit AnthropicWriter(const GenerationRequest& request);

  const std::string& id() const override { return id_; }
  Json whole(std::vector<WholeAnswer> answers, const TokenCounts& counts) override;
  std::string begin(int64_t index, const TokenCounts& counts) override;
  std::string part(int64_t index, const AnswerDelta& delta, const Answer& answer,
                   const TokenCounts& counts) override;
  std::string end(const TokenCounts& counts) override;
  std::string error(const ApiError& error) override;

 private:
  // Returns the response without its content. answer: null if it has not ended.
  Json message(const Answer* answer, const TokenCounts& counts) const;
  // Sets "stop_reason" and "stop_sequence"; null if `answer` is null.
  static void set_stop(Json& json, const Answer* answer);
  // Returns an event of the stream; its "type" is the name of the event.
  static std::string event(const char* name, Json data);
  // Returns the events that begin a block, after the end of the block before.
  std::string open_block(const char* kind, Json block);
  std::string close_block();
  // Returns the events of a piece of text. kind: "text" or "thinking", of the block.
  std::string text_events(const char* kind, const std::string& text);
  std::string call_events(const CallDelta& call);

  const GenerationRequest& request_;
  const std::string id_;
  std::string open_;            // kind of the open block; "": none
  int64_t block_ = -1;          // index of the current block
  Json stop_ = Json::object();  // "stop_reason" and "stop_sequence", once the answer has ended
};

}  // namespace colossal::server
