#include "colossal/python/generation.h"

#include <chrono>
#include <utility>

#include "colossal/base/error.h"

namespace colossal::python {
namespace {

constexpr int kOk = 200, kBusy = 429, kClosed = 503;

// All that the writer would send is in the generation already.
class Reply : public server::Reply {
 public:
  explicit Reply(std::shared_ptr<Generation> generation) : generation_(std::move(generation)) {}
  void send(int status, std::string_view, std::string body, server::Headers) override {
    if (status == kOk) return generation_->finish(std::move(body));
    const server::Json json = server::Json::parse(body, nullptr, /*allow_exceptions=*/false);
    // The server would be stopping.
    if (status == kClosed)
      body = "the LLM was closed before this was complete";
    else
      body = json.value("error", server::Json::object()).value("message", body);
    generation_->fail(status, std::move(body));
  }
  void begin_stream(std::string_view, server::Headers) override {}
  void write_part(std::string_view) override {}
  void end_stream() override { generation_->finish(); }
  void on_abandoned(std::function<void()> action) override {
    generation_->on_cancel(std::move(action));
  }

 private:
  std::shared_ptr<Generation> generation_;
};

void set_end(AnswerPart& part, const server::Answer& answer) {
  part.finish_reason = answer.finish_reason();
  part.stop_string = answer.stop_string();
  part.cached_tokens = answer.usage().cached_tokens;
  part.beam_score = answer.beam_score();
}

class Writer : public server::AnswerWriter {
 public:
  explicit Writer(std::shared_ptr<Generation> generation) : generation_(std::move(generation)) {}

  const std::string& id() const override { return id_; }
  server::Json whole(std::vector<server::WholeAnswer> answers,
                     const server::TokenCounts&) override {
    int64_t index = 0;
    for (auto& [all, answer] : answers) {
      AnswerPart part{.index = index++,
                      .added = std::move(all),
                      .prompt = answer.prompt().tokens,
                      .prompt_logprobs = answer.prompt_logprobs()};
      set_end(part, answer);
      generation_->add(std::move(part));
    }
    return {};
  }
  std::string begin(int64_t, const server::TokenCounts&) override { return {}; }
  std::string part(int64_t index, const server::AnswerDelta& delta, const server::Answer& answer,
                   const server::TokenCounts&) override {
    AnswerPart part{.index = index, .added = delta};
    if (answer.finished()) set_end(part, answer);
    generation_->add(std::move(part));
    return {};
  }
  std::string end(const server::TokenCounts&) override { return {}; }
  std::string error(const server::ApiError& error) override {
    generation_->fail(error.status, error.what());
    return {};
  }

 private:
  std::shared_ptr<Generation> generation_;
  const std::string id_;
};

}  // namespace

void Generation::add(AnswerPart part) {
  const std::lock_guard lock(mutex_);
  parts_.push_back(std::move(part));
  changed_.notify_all();
}

void Generation::add(std::vector<float> embedding) {
  const std::lock_guard lock(mutex_);
  embeddings_.push_back(std::move(embedding));
}

void Generation::finish(std::string answer) {
  const std::lock_guard lock(mutex_);
  answer_ = std::move(answer);
  finished_ = true;
  changed_.notify_all();
}

void Generation::fail(int status, std::string message) {
  const std::lock_guard lock(mutex_);
  if (finished_) return;
  finished_ = true;
  status_ = status;
  failure_ = std::move(message);
  changed_.notify_all();
}

void Generation::on_cancel(std::function<void()> action) {
  const std::lock_guard lock(mutex_);
  cancel_ = std::move(action);
}

void Generation::wait(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [&] { return finished_ || !parts_.empty(); });
}

std::vector<AnswerPart> Generation::take_parts() {
  const std::lock_guard lock(mutex_);
  throw_failure();
  return std::exchange(parts_, {});
}

std::vector<std::vector<float>> Generation::take_embeddings() {
  const std::lock_guard lock(mutex_);
  throw_failure();
  return std::exchange(embeddings_, {});
}

std::string Generation::take_answer() {
  const std::lock_guard lock(mutex_);
  throw_failure();
  return std::exchange(answer_, {});
}

bool Generation::finished() const {
  const std::lock_guard lock(mutex_);
  return finished_ && parts_.empty();
}

void Generation::cancel() {
  std::function<void()> action;
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    action = std::exchange(cancel_, {});
  }
  if (action) action();
}

void Generation::throw_failure() const {
  if (status_ == 0) return;
  constexpr int kServerErrors = 500;
  if (status_ < kServerErrors && status_ != kBusy) throw ConfigError(failure_);
  throw Error(failure_);
}

std::shared_ptr<server::Reply> make_reply(std::shared_ptr<Generation> generation) {
  return std::make_shared<Reply>(std::move(generation));
}

std::unique_ptr<server::AnswerWriter> make_writer(std::shared_ptr<Generation> generation) {
  return std::make_unique<Writer>(std::move(generation));
}

}  // namespace colossal::python
