#include "colossal/cli/generate_file.h"

#include <condition_variable>
#include <fstream>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "colossal/base/progress.h"
#include "colossal/data/json_line.h"
#include "colossal/report/output_file.h"
#include "colossal/serve/stop_strings.h"
#include "colossal/text/streaming_decoder.h"

namespace colossal::cli {
namespace {

// Calls each(line, line number) for the lines that are not blank.
void for_each_line(const std::string& input,
                   const std::function<void(const std::string&, int64_t)>& each) {
  std::ifstream file(input);
  if (!file) throw IoError(fmt::format("{}: cannot be read", input));
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (!data::is_blank(line)) each(line, number);
  }
}

// Returns the conversation of a line, or nothing if the line has none.
std::optional<nlohmann::ordered_json> messages_of(const std::string& line) {
  const auto json = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("messages")) return {};
  if (!json["messages"].is_array() || json["messages"].empty()) {
    throw data::InvalidLine("\"messages\" must be a list of {\"role\": ..., \"content\": ...}");
  }
  return json["messages"];
}

std::vector<int32_t> encode(const server::ServedModel& model, const std::string& line) {
  const auto messages = messages_of(line);
  if (!messages) return model.tokenizer().encode_prompt(data::read_text_field(line, "prompt"));
  if (!model.chat_template()) {
    throw ConfigError(
        fmt::format("{} has no chat template (neither chat_template.jinja nor one in "
                    "tokenizer_config.json), which \"messages\" needs; use \"prompt\" instead",
                    model.name()));
  }
  return model.encode_chat(*messages, {}).tokens;
}

nlohmann::json logprobs_of(const std::vector<serve::GeneratedToken>& tokens) {
  nlohmann::json all = nlohmann::json::array();
  for (const serve::GeneratedToken& token : tokens) {
    nlohmann::json top = nlohmann::json::array();
    for (const auto& [other, logprob] : token.top) {
      top.push_back({{"token", other}, {"logprob", logprob}});
    }
    all.push_back({{"token", token.token}, {"logprob", token.logprob}, {"top", std::move(top)}});
  }
  return all;
}

// A line of the input and its completion so far.
class Completion {
 public:
  Completion(const text::Tokenizer& tokenizer, const GenerateFileArguments& what,
             const std::string& line)
      : tokenizer_(tokenizer),
        what_(what),
        line_(nlohmann::ordered_json::parse(line)),
        decoder_(what.decoder(tokenizer)),
        stop_(what.stop) {}

  bool take(const serve::GeneratedToken& token) {
    text_ += stop_.push(decoder_.push(token.token));
    if (what_.request.logprobs >= 0) tokens_.push_back(token);
    return !stop_.found();
  }

  void take(const std::vector<serve::BeamText>& beams) {
    for (const serve::GeneratedToken& token : beams.front().tokens) {
      if (!take(token)) break;
    }
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const serve::BeamText& beam : beams) {
      all.push_back({{"completion", text_of(beam.tokens)},
                     {"score", beam.score},
                     {"finish_reason", word_of(beam.reason)}});
    }
    line_["beams"] = std::move(all);
  }

  std::string finished_line(serve::FinishReason reason, const serve::Usage& usage) {
    text_ += stop_.push(decoder_.flush()) + stop_.flush();
    line_["completion"] = text_;
    line_["completion_tokens"] = usage.completion_tokens;
    line_["finish_reason"] = word_of(reason);
    if (what_.request.logprobs >= 0) line_["logprobs"] = logprobs_of(tokens_);
    return line_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }

 private:
  static const char* word_of(serve::FinishReason reason) {
    return reason == serve::FinishReason::stop ? "stop" : "length";
  }
  std::string text_of(const std::vector<serve::GeneratedToken>& tokens) const {
    text::StreamingDecoder decoder = what_.decoder(tokenizer_);
    serve::StopStrings stop(what_.stop);
    std::string text;
    for (const serve::GeneratedToken& token : tokens) text += stop.push(decoder.push(token.token));
    return text + stop.push(decoder.flush()) + stop.flush();
  }

  const text::Tokenizer& tokenizer_;
  const GenerateFileArguments& what_;
  nlohmann::ordered_json line_;
  text::StreamingDecoder decoder_;
  serve::StopStrings stop_;
  std::string text_;
  std::vector<serve::GeneratedToken> tokens_;
};

// Writes completed lines in the order of the input.
class OrderedLines {
 public:
  OrderedLines(const std::string& path, int64_t count)
      : file_(path), lines_(count), progress_("generating", 0, count, "prompts") {}

  void put(int64_t index, std::string line) {
    const std::lock_guard lock(mutex_);
    lines_[index] = std::move(line);
    for (; written_ < std::ssize(lines_) && lines_[written_]; ++written_) {
      file_.write(*lines_[written_]);
      lines_[written_]->clear();
    }
    progress_.update(++done_);
    changed_.notify_all();
  }
  void fail(const std::string& error) {
    const std::lock_guard lock(mutex_);
    if (error_.empty()) error_ = error;
    changed_.notify_all();
  }
  // Waits until fewer than `most` of `begun` requests are under way. Throws if one has failed.
  void wait(int64_t begun, int64_t most) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun - done_ < most || !error_.empty(); });
    if (!error_.empty()) throw Error(error_);
  }
  void close() {
    progress_.finish();
    file_.close();
  }

 private:
  report::OutputFile file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<std::string>> lines_;
  int64_t written_ = 0, done_ = 0;
  std::string error_;
  ProgressLine progress_;
};

}  // namespace

int64_t count_prompts(const std::string& input) {
  int64_t count = 0;
  for_each_line(input, [&](const std::string& line, int64_t number) {
    try {
      if (!messages_of(line)) data::read_text_field(line, "prompt");
    } catch (const data::InvalidLine& error) {
      throw ConfigError(fmt::format("{}:{}: {}", input, number, error.what()));
    }
    ++count;
  });
  return count;
}

void generate_file(serve::Engine& engine, const server::ServedModel& model,
                   const GenerateFileArguments& what) {
  const auto lines = std::make_shared<OrderedLines>(what.output, count_prompts(what.input));
  // The engine accepts max_num_seqs more, but counts requests that have ended until its step is
  // over.
  const int64_t most = engine.options().max_queue;
  int64_t index = 0;
  for_each_line(what.input, [&](const std::string& line, int64_t number) {
    lines->wait(index, most);
    const auto completion = std::make_shared<Completion>(model.tokenizer(), what, line);
    serve::Request request = what.request;
    request.sampling.seed += static_cast<uint64_t>(index);
    request.on_token = [completion](const serve::GeneratedToken& token) {
      return completion->take(token);
    };
    request.on_beams = [completion](const auto& beams) { completion->take(beams); };
    request.ends_beam = serve::ends_beam_at(what.stop, model.tokenizer());
    const std::string place = fmt::format("{}:{}", what.input, number);
    request.on_finish = [completion, lines, index, place](serve::FinishReason reason,
                                                          const serve::Usage& usage,
                                                          const std::string& error) {
      if (reason == serve::FinishReason::failed) return lines->fail(place + ": " + error);
      if (reason == serve::FinishReason::cancelled) return;
      try {
        lines->put(index, completion->finished_line(reason, usage));
      } catch (const std::exception& failure) {
        lines->fail(failure.what());
      }
    };
    try {
      request.prompt = encode(model, line);
      engine.submit(std::move(request));
    } catch (const Error& error) {
      throw ConfigError(place + ": " + error.what());
    }
    ++index;
  });
  lines->wait(index, 1);
  lines->close();
}

}  // namespace colossal::cli
