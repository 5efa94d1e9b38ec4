#include "colossal/server/pooled_texts.h"

#include <algorithm>

#include "colossal/base/current_exception.h"
#include "colossal/server/completion.h"

namespace colossal::server {
namespace {

// Most texts of a request in the engine at once, so that other requests get places in the queue.
constexpr size_t kMostAtOnce = 32;

}  // namespace

PooledTexts::PooledTexts(PooledTextsRequest request, MakeAnswer make_answer, serve::Engine& engine,
                         Metrics& metrics, std::shared_ptr<Reply> reply)
    : request_(std::move(request)),
      make_answer_(std::move(make_answer)),
      engine_(engine),
      metrics_(metrics),
      reply_(std::move(reply)),
      results_(request_.texts.size()) {}

void PooledTexts::start() {
  reply_->on_abandoned([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->abandon();
  });
  const std::lock_guard lock(mutex_);
  submit_until(std::min(request_.texts.size(), kMostAtOnce));
}

void PooledTexts::submit_until(size_t end) {
  try {
    for (; next_ < end; ++next_) ids_.push_back(engine_.submit(engine_request(next_)));
  } catch (const serve::QueueFull&) {
    cancel_all();
    throw busy();
  } catch (const serve::EngineLost& error) {
    cancel_all();
    throw ApiError(503, error.what());
  } catch (const ConfigError& error) {
    cancel_all();
    throw ApiError(400, error.what());
  }
}

void PooledTexts::abandon() {
  const std::lock_guard lock(mutex_);
  if (!over_) cancel_all();
}

serve::Request PooledTexts::engine_request(size_t which) {
  const auto self = shared_from_this();
  serve::Request request;
  request.prompt = request_.texts[which].tokens;
  request.token_types = request_.texts[which].types;
  request.max_new_tokens = 0;
  request.pooling = request_.pooling;
  request.priority = request_.priority;
  request.adapter = request_.adapter;
  request.cache_salt = request_.cache_salt;
  request.on_embedding = [self, which](const std::vector<double>& result) {
    const std::lock_guard lock(self->mutex_);
    self->results_[which] = result;
  };
  request.on_finish = [self](serve::FinishReason reason, const serve::Usage& usage,
                             const std::string& error) { self->finish(reason, usage, error); };
  return request;
}

void PooledTexts::finish(serve::FinishReason reason, const serve::Usage& usage,
                         const std::string& error) {
  const std::lock_guard lock(mutex_);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
  metrics_.finished(reason, usage, seconds.count(), request_.model);
  ++num_finished_;
  if (over_) return;
  if (reason == serve::FinishReason::failed || reason == serve::FinishReason::cancelled) {
    cancel_all();
    return send_error(*reply_, failure(reason, error));
  }
  if (num_finished_ == results_.size()) return answer();
  try {
    submit_until(std::min(results_.size(), next_ + 1));
  } catch (const ApiError& error) {
    send_error(*reply_, error);
  }
}

void PooledTexts::cancel_all() {
  over_ = true;
  for (const serve::RequestId id : ids_) engine_.cancel(id);
}

void PooledTexts::answer() {
  over_ = true;
  try {
    reply_->send(200, "application/json", to_text(make_answer_(results_)));
  } catch (const ApiError& error) {
    send_error(*reply_, error);
  } catch (...) {
    send_error(*reply_, ApiError(500, message_of_current_exception()));
  }
}

}  // namespace colossal::server
