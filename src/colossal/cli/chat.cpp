#include "colossal/cli/chat.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <optional>

#include "colossal/serve/stop_strings.h"
#include "colossal/server/api_error.h"
#include "colossal/text/streaming_decoder.h"

namespace colossal::cli {
namespace {

using Json = nlohmann::ordered_json;

void write_out(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Reads lines from stdin. An interrupt ends a wait.
class LineReader {
 public:
  explicit LineReader(cluster::SignalQueue& interrupts) : interrupts_(interrupts) {}

  // Returns nothing at the end of the input, and an empty line at an interrupt.
  std::optional<std::string> read() {
    while (true) {
      if (const size_t end = held_.find('\n'); end != std::string::npos) {
        std::string line = held_.substr(0, end);
        held_.erase(0, end + 1);
        return line;
      }
      pollfd polled[] = {{STDIN_FILENO, POLLIN, 0}, {interrupts_.fd(), POLLIN, 0}};
      if (poll(polled, 2, -1) > 0 && polled[1].revents != 0) {
        interrupts_.take();
        write_out("\n(/exit or Ctrl-D ends the conversation)\n");
        return "";
      }
      char buffer[4096];
      const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
      if (count > 0) {
        held_.append(buffer, static_cast<size_t>(count));
      } else if (held_.empty()) {
        return {};
      } else {
        held_ += '\n';
      }
    }
  }

 private:
  cluster::SignalQueue& interrupts_;
  std::string held_;
};

class Conversation {
 public:
  Conversation(serve::Engine& engine, const server::ServedModel& model,
               cluster::SignalQueue& interrupts, const GenerateFileArguments& how)
      : engine_(engine),
        model_(model),
        interrupts_(interrupts),
        request_(how.request),
        stop_(how.stop),
        shows_special_(how.shows_special) {}

  void reset() { messages_ = Json::array(); }

  // Writes the answer as it is generated. An answer that the user stops stays in the conversation
  // too.
  void say(const std::string& text) {
    messages_.push_back({{"role", "user"}, {"content", text}});
    try {
      answer();
    } catch (const Error& error) {  // the conversation is too long, or the template refuses it
      write_out(fmt::format("({})\n", error.what()));
      messages_.erase(messages_.size() - 1);
    }
  }

 private:
  void answer() {
    std::vector<int32_t> prompt = model_.encode_chat(messages_, {}).tokens;
    const int64_t room = model_.max_length() - static_cast<int64_t>(prompt.size());
    if (room < 1)
      throw Error(
          "the conversation has reached the model's maximum length: /reset starts a new one");
    text::StreamingDecoder decoder(model_.tokenizer(), text::StreamingDecoder::Begins::after_prompt,
                                   !shows_special_);
    serve::StopStrings stop(stop_);
    std::string answer;
    const auto give_out = [&](const std::string& piece) {
      answer += piece;
      write_out(piece);
    };
    std::promise<std::string> end;
    serve::Request request = request_;
    request.prompt = std::move(prompt);
    request.sampling.seed += static_cast<uint64_t>(messages_.size());
    request.end_tokens = model_.end_tokens();
    request.max_new_tokens = std::min(request.max_new_tokens, room);
    request.on_token = [&](const serve::GeneratedToken& token) {
      give_out(stop.push(decoder.push(token.token)));
      return !stop.found() && interrupts_.take().empty();
    };
    request.ends_beam = serve::ends_beam_at(stop_, model_.tokenizer());
    request.on_beams = [&](const std::vector<serve::BeamText>& beams) {
      for (const serve::GeneratedToken& token : beams.front().tokens) {
        give_out(stop.push(decoder.push(token.token)));
      }
    };
    request.on_finish = [&](serve::FinishReason, const serve::Usage&, const std::string& error) {
      give_out(stop.push(decoder.flush()) + stop.flush());
      end.set_value(error);
    };
    engine_.submit(std::move(request));
    const std::string error = end.get_future().get();
    if (!error.empty()) throw Error(error);
    write_out("\n");
    messages_.push_back({{"role", "assistant"}, {"content", answer}});
  }

  serve::Engine& engine_;
  const server::ServedModel& model_;
  cluster::SignalQueue& interrupts_;
  const serve::Request& request_;
  const std::vector<std::string>& stop_;
  const bool shows_special_;
  Json messages_ = Json::array();
};

}  // namespace

void chat(serve::Engine& engine, const server::ServedModel& model, cluster::SignalQueue& interrupts,
          const GenerateFileArguments& how) {
  if (!model.chat_template()) {
    throw ConfigError(
        fmt::format("--chat: {} has no chat template (neither chat_template.jinja nor one in "
                    "tokenizer_config.json); use --prompt to continue a text",
                    model.name()));
  }
  const bool interactive = isatty(STDIN_FILENO) != 0;
  LineReader lines(interrupts);
  Conversation conversation(engine, model, interrupts, how);
  if (interactive)
    write_out("/reset starts a new conversation, /exit ends, Ctrl-C stops an answer\n");
  while (true) {
    if (interactive) write_out("> ");
    const auto line = lines.read();
    if (!line || *line == "/exit") return;
    if (*line == "/reset") {
      conversation.reset();
    } else if (!line->empty()) {
      conversation.say(*line);
    }
  }
}

}  // namespace colossal::cli
