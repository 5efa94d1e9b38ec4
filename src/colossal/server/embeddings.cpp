#include "colossal/server/embeddings.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "colossal/server/completion.h"

namespace colossal::server {
namespace {

// Most texts of a request in the engine at once, so that other requests get places in the queue.
constexpr size_t kMostAtOnce = 32;

}  // namespace

std::string base64_of(const std::vector<double>& numbers) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint8_t> bytes;
  for (const double number : numbers) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(number));
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<uint8_t>(bits >> shift));
  }
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? bytes[i + k] : 0);
    for (size_t k = 0; k < 4; ++k) {
      text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

Embeddings::Embeddings(EmbeddingRequest request, serve::Engine& engine, Metrics& metrics,
                       std::shared_ptr<Reply> reply)
    : request_(std::move(request)),
      engine_(engine),
      metrics_(metrics),
      reply_(std::move(reply)),
      embeddings_(request_.inputs.size()) {}

void Embeddings::start() {
  reply_->on_abandoned([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->abandon();
  });
  const std::lock_guard lock(mutex_);
  submit_until(std::min(request_.inputs.size(), kMostAtOnce));
}

void Embeddings::submit_until(size_t end) {
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

void Embeddings::abandon() {
  const std::lock_guard lock(mutex_);
  if (!over_) cancel_all();
}

serve::Request Embeddings::engine_request(size_t which) {
  const auto self = shared_from_this();
  serve::Request request;
  request.prompt = request_.inputs[which];
  request.max_new_tokens = 0;
  request.pooling = request_.pooling;
  request.priority = request_.priority;
  request.adapter = request_.adapter;
  request.cache_salt = request_.cache_salt;
  request.on_embedding = [self, which](const std::vector<double>& embedding) {
    const std::lock_guard lock(self->mutex_);
    self->embeddings_[which] = embedding;
  };
  request.on_finish = [self](serve::FinishReason reason, const serve::Usage& usage,
                             const std::string& error) { self->finish(reason, usage, error); };
  return request;
}

void Embeddings::finish(serve::FinishReason reason, const serve::Usage& usage,
                        const std::string& error) {
  const std::lock_guard lock(mutex_);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
  metrics_.finished(reason, usage, seconds.count());
  ++num_finished_;
  if (over_) return;
  if (reason == serve::FinishReason::failed || reason == serve::FinishReason::cancelled) {
    cancel_all();
    return send_error(*reply_, failure(reason, error));
  }
  if (num_finished_ == embeddings_.size()) return answer();
  try {
    submit_until(std::min(embeddings_.size(), next_ + 1));
  } catch (const ApiError& error) {
    send_error(*reply_, error);
  }
}

void Embeddings::cancel_all() {
  over_ = true;
  for (const serve::RequestId id : ids_) engine_.cancel(id);
}

Json Embeddings::data_of(const std::vector<double>& embedding) const {
  std::vector<double> numbers = embedding;
  double squares = 0;
  for (const double number : numbers) squares += number * number;
  if (request_.normalize && squares > 0) {
    for (double& number : numbers) number /= std::sqrt(squares);
  }
  if (request_.base64) return base64_of(numbers);
  // Rounds to fp32, as base64 does.
  return std::vector<float>(numbers.begin(), numbers.end());
}

void Embeddings::answer() {
  over_ = true;
  Json data = Json::array();
  size_t tokens = 0;
  for (size_t which = 0; which < embeddings_.size(); ++which) {
    data.push_back(
        {{"object", "embedding"}, {"index", which}, {"embedding", data_of(embeddings_[which])}});
    tokens += request_.inputs[which].size();
  }
  reply_->send(200, "application/json",
               to_text({{"object", "list"},
                        {"data", std::move(data)},
                        {"model", request_.model},
                        {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}}));
}

}  // namespace colossal::server
