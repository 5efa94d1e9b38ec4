#include "colossal/cli/chat.h"

#include <chrono>
#include <cstdio>
#include <future>
#include <optional>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/cli/message_reader.h"
#include "colossal/io/file.h"
#include "colossal/serve/stop_strings.h"
#include "colossal/server/api_error.h"
#include "colossal/text/tokenizer/streaming_decoder.h"

namespace colossal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kInterruptInterval{30};  // how often an interrupt is looked for

constexpr char kHelp[] =
    "/system TEXT   set the system message; without TEXT, show it\n"
    "/reset         start a new conversation (also /clear)\n"
    "/retry         answer the last message again, with another seed\n"
    "/undo          take the last message and its answer back\n"
    "/edit          change the last message and have it answered again; /edit TEXT replaces it\n"
    "/save FILE     write the conversation as a line {\"messages\": [...]}\n"
    "/exit          end (also /quit, Ctrl-D)\n"
    "A message of several lines stands between \"\"\" and \"\"\", or has a backslash at the end of "
    "each line but the last. Ctrl-C stops an answer. A message may begin with a slash after a "
    "space.\n";

void write_out(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Says something that is not part of an answer.
void say(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

class Conversation {
 public:
  Conversation(serve::Engine& engine, const server::ServedModel& model,
               cluster::SignalQueue& interrupts, const ChatArguments& arguments)
      : engine_(engine),
        model_(model),
        interrupts_(interrupts),
        arguments_(arguments),
        system_(arguments.system) {}

  const std::string& system() const { return system_; }
  void set_system(const std::string& text) { system_ = text; }
  void reset() { messages_ = Json::array(); }

  // Returns the user's last message; nothing if there is none.
  std::optional<std::string> last_message() const {
    for (size_t i = messages_.size(); i > 0; --i) {
      if (messages_[i - 1]["role"] == "user") return messages_[i - 1]["content"];
    }
    return {};
  }
  // Removes the user's last message and its answer.
  void undo() {
    while (!messages_.empty()) {
      const bool is_users = messages_.back()["role"] == "user";
      messages_.erase(messages_.size() - 1);
      if (is_users) return;
    }
  }

  // Writes the answer to a message as it is generated. An answer that the user stops stays in the
  // conversation too.
  void ask(const std::string& text) { ask(text, messages_); }
  // Like ask(), in place of the user's last message.
  void ask_instead(const std::string& text) {
    const Json before = messages_;
    undo();
    ask(text, before);
  }

  // Returns the conversation with its system message.
  Json messages() const {
    Json all = Json::array();
    if (!system_.empty()) all.push_back({{"role", "system"}, {"content", system_}});
    for (const Json& message : messages_) all.push_back(message);
    return all;
  }

 private:
  struct Ending {
    serve::FinishReason reason;
    int64_t tokens;
    std::string error;
  };

  // before: the conversation to go back to if there is no answer.
  void ask(const std::string& text, Json before) {
    messages_.push_back({{"role", "user"}, {"content", text}});
    try {
      answer();
    } catch (const Error& error) {  // the conversation is too long, or the template refuses it
      say(fmt::format("({})\n", error.what()));
      messages_ = std::move(before);
    }
  }

  void answer() {
    std::vector<int32_t> prompt = model_.encode_chat(messages(), {}).tokens;
    const int64_t room =
        model_.max_length() - model_.tokens_before_text(static_cast<int64_t>(prompt.size()));
    if (room < 1) {
      throw Error(fmt::format(
          "the conversation has {} tokens and has reached the model's maximum of {}: /reset starts "
          "a new one, /undo takes the last message back",
          format_count(std::ssize(prompt)), format_count(model_.max_length())));
    }
    text::StreamingDecoder decoder(model_.tokenizer(), text::StreamingDecoder::Begins::after_prompt,
                                   !arguments_.shows_special);
    serve::StopStrings stop(arguments_.stop);
    std::string answer;
    const auto give_out = [&](const std::string& piece) {
      answer += piece;
      write_out(piece);
    };
    std::promise<Ending> end;
    serve::Request request = arguments_.request;
    request.prompt = std::move(prompt);
    request.sampling.seed += num_answers_++;
    request.end_tokens = model_.end_tokens();
    request.max_new_tokens = std::min(request.max_new_tokens, room);
    request.on_token = [&](const serve::GeneratedToken& token) {
      give_out(stop.push(decoder.push(token.token)));
      return !stop.found();
    };
    request.ends_beam = serve::ends_beam_at(arguments_.stop, model_.tokenizer());
    request.on_beams = [&](const std::vector<serve::BeamText>& beams) {
      for (const serve::GeneratedToken& token : beams.front().tokens) {
        give_out(stop.push(decoder.push(token.token)));
      }
    };
    request.on_finish = [&](serve::FinishReason reason, const serve::Usage& usage,
                            const std::string& error) {
      end.set_value({reason, usage.completion_tokens, error});
    };
    std::future<Ending> ended = end.get_future();
    const serve::RequestId id = engine_.submit(std::move(request));
    bool stopped = false;
    while (ended.wait_for(kInterruptInterval) != std::future_status::ready) {
      if (interrupts_.take().empty()) continue;
      stopped = true;
      engine_.cancel(id);
    }
    const Ending ending = ended.get();
    if (!ending.error.empty()) throw Error(ending.error);
    give_out(stop.push(decoder.flush()) + stop.flush());
    write_out("\n");
    messages_.push_back({{"role", "assistant"}, {"content", answer}});
    if (stopped || ending.reason != serve::FinishReason::length) return;
    say(ending.tokens < room
            ? fmt::format("(cut after --max-new-tokens={})\n", arguments_.request.max_new_tokens)
            : fmt::format("(cut: the conversation has reached the model's maximum of {} tokens; "
                          "/reset starts a new one)\n",
                          format_count(model_.max_length())));
  }

  serve::Engine& engine_;
  const server::ServedModel& model_;
  cluster::SignalQueue& interrupts_;
  const ChatArguments& arguments_;
  std::string system_;
  Json messages_ = Json::array();  // without the system message
  uint64_t num_answers_ = 0;       // each answer has a seed of its own
};

void save(const Conversation& conversation, const std::string& path) {
  if (path.empty()) return say("(/save FILE: name the file to write)\n");
  try {
    if (io::path_exists(path)) return say(fmt::format("({} exists; give another name)\n", path));
    const Json line{{"messages", conversation.messages()}};
    io::write_file_atomically(path,
                              line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    say(fmt::format("(saved as {})\n", path));
  } catch (const Error& error) {
    say(fmt::format("({})\n", error.what()));
  }
}

// The conversation with its commands.
class Chat {
 public:
  Chat(Conversation conversation, MessageReader& reader)
      : conversation_(std::move(conversation)), reader_(reader) {}

  // Takes a message or a command. Returns false to end.
  bool take(const std::string& text) {
    if (text.empty()) return true;
    if (text[0] != '/') {
      conversation_.ask(text[0] == ' ' && text.starts_with(" /") ? text.substr(1) : text);
      return true;
    }
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string name = text.substr(0, end);
    const std::string rest = end < text.size() ? text.substr(end + 1) : "";
    if (name == "/exit" || name == "/quit" || name == "/bye") return false;
    if (name == "/system") {
      set_system(rest);
    } else if (name == "/reset" || name == "/clear") {
      conversation_.reset();
    } else if (name == "/retry") {
      answer_again();
    } else if (name == "/undo") {
      undo();
    } else if (name == "/edit") {
      edit(rest);
    } else if (name == "/save") {
      save(conversation_, rest);
    } else if (name == "/help" || name == "/?") {
      say(kHelp);
    } else {
      say(
          fmt::format("({}: no such command; /help lists them. A message may begin with a slash "
                      "after a space)\n",
                      name));
    }
    return true;
  }

 private:
  void set_system(const std::string& text) {
    if (!text.empty()) return conversation_.set_system(text);
    say(conversation_.system().empty() ? "(no system message)\n" : conversation_.system() + "\n");
  }
  // Returns the last message; says so if there is none.
  std::optional<std::string> last_message() const {
    auto message = conversation_.last_message();
    if (!message) say("(there is no message yet)\n");
    return message;
  }
  void answer_again() {
    const auto message = last_message();
    if (!message) return;
    conversation_.ask_instead(*message);
  }
  void undo() {
    if (!last_message()) return;
    conversation_.undo();
    const auto before = conversation_.last_message();
    say(before ? fmt::format("(back to the answer to: {})\n", *before)
               : "(the conversation is empty)\n");
  }
  void edit(std::string text) {
    const auto message = last_message();
    if (!message) return;
    if (text.empty()) {
      if (!reader_.is_terminal()) return say("(/edit TEXT: give the text that replaces it)\n");
      if (message->find('\n') != std::string::npos) {
        return say("(the message has several lines: give the text that replaces it, /edit TEXT)\n");
      }
      text = reader_.read(*message).value_or("");
    }
    if (!text.empty()) conversation_.ask_instead(text);
  }

  Conversation conversation_;
  MessageReader& reader_;
};

}  // namespace

void chat(serve::Engine& engine, const server::ServedModel& model, cluster::SignalQueue& interrupts,
          const ChatArguments& arguments) {
  if (!model.chat_template()) {
    throw ConfigError(
        fmt::format("--chat: {} has no chat template (neither chat_template.jinja nor one in "
                    "tokenizer_config.json); use --prompt to continue a text",
                    model.name()));
  }
  MessageReader reader(interrupts);
  Chat chat(Conversation(engine, model, interrupts, arguments), reader);
  if (reader.is_terminal()) say("/help lists the commands, /exit ends, Ctrl-C stops an answer\n");
  while (const auto text = reader.read()) {
    if (text->empty() && reader.is_interrupted()) {
      say("\n(/exit or Ctrl-D ends the conversation)\n");
    } else if (!chat.take(*text)) {
      return;
    }
  }
}

}  // namespace colossal::cli
