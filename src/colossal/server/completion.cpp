#include "colossal/server/completion.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "colossal/base/current_exception.h"
#include "colossal/base/log.h"
#include "colossal/server/text_constraint.h"

namespace colossal::server {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

ApiError busy() {
  ApiError error(429, "too many requests are waiting; try again soon");
  error.retry_after = 1;
  return error;
}

ApiError failure(serve::FinishReason reason, const std::string& message) {
  if (reason == serve::FinishReason::cancelled) {
    ApiError error(503, "the server is stopping; try again later");
    error.retry_after = 5;
    return error;
  }
  return ApiError(500, message.empty() ? "the engine failed" : message);
}

Completion::Completion(std::shared_ptr<const GenerationRequest> request,
                       std::unique_ptr<AnswerWriter> writer, const ServedModel& model,
                       serve::Engine& engine, Metrics& metrics, std::shared_ptr<Reply> reply)
    : owned_request_(std::move(request)),
      writer_(std::move(writer)),
      model_(model),
      engine_(engine),
      metrics_(metrics),
      reply_(std::move(reply)) {
  answers_.reserve(request_.prompts.size() * static_cast<size_t>(request_.best_of));
  for (const GenerationRequest::Prompt& prompt : request_.prompts) {
    for (int64_t i = 0; i < request_.best_of; ++i) answers_.emplace_back(request_, prompt, model_);
  }
  last_token_.assign(answers_.size(), start_);
  beam_reasons_.assign(answers_.size(), serve::FinishReason::failed);
}

void Completion::start() {
  reply_->on_abandoned([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->abandon();
  });
  if (request_.rule) {
    request_.rule->when_done([self = shared_from_this()] { self->submit_compiled(); });
    return;
  }
  submit_all();
  begin_events();
}

void Completion::submit_compiled() {
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;  // the client has gone
  }
  const auto refuse = [&](const ApiError& error) {
    const std::lock_guard lock(mutex_);
    fail(error);
  };
  try {
    rule_ = request_.rule->get(request_.rule_field);
    submit_all();
    begin_events();
  } catch (const ApiError& error) {
    refuse(error);
  } catch (...) {
    refuse(ApiError(500, message_of_current_exception()));
  }
}

void Completion::submit_all() {
  try {
    submit_each();
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

void Completion::begin_events() {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  submitted_ = true;
  write_part(std::exchange(held_parts_, {}));
  if (num_finished_ == answers_.size()) finish_all();
}

void Completion::submit_each() {
  const size_t step = is_beam_search() ? static_cast<size_t>(request_.n) : 1;
  for (size_t which = 0; which < answers_.size(); which += step) {
    const serve::RequestId id = engine_.submit(engine_request(which));
    const std::lock_guard lock(mutex_);
    ids_.push_back(id);
    if (over_) {  // an earlier answer has failed, or the client has gone
      engine_.cancel(id);
      return;
    }
  }
}

void Completion::cancel_all() {
  std::vector<serve::RequestId> ids;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(over_, true)) return;
    ids = ids_;
  }
  for (const serve::RequestId id : ids) engine_.cancel(id);
}

void Completion::abandon() {
  cancel_all();
  const std::lock_guard lock(mutex_);
  log_end("abandoned");
}

serve::Request Completion::engine_request(size_t which) {
  const auto self = shared_from_this();
  const auto answer = which % static_cast<size_t>(request_.best_of);
  serve::Request request;
  request.prompt = request_.prompts[prompt_of(which)].tokens;
  request.sampling = request_.sampling;
  // Each answer has its own seed. The first answer has the request's seed, as if it were alone.
  request.sampling.seed += answer * 0x9E3779B97F4A7C15u;
  request.max_new_tokens = request_.max_new_tokens;
  request.max_length = request_.max_length;
  request.beams = request_.beams;
  request.end_tokens = request_.end_tokens;
  const bool ranks = request_.best_of > request_.n;
  request.logprobs = ranks ? std::max<int64_t>(0, request_.logprobs) : request_.logprobs;
  request.prompt_logprobs =
      std::max(request_.echo ? request_.logprobs : -1, request_.prompt_logprobs);
  request.priority = request_.priority;
  request.adapter = request_.adapter;
  request.cache_salt = request_.cache_salt;
  if (rule_) {
    const bool may_reason = request_.kind == GenerationRequest::Kind::chat &&
                            model_.reasoning_form() != text::ReasoningForm::none;
    request.constraint = std::make_shared<TextConstraint>(
        rule_, *request_.rules, model_, request_.end_tokens, request_.begin, may_reason);
  }
  request.on_prompt = [self, which](const auto& tokens) { self->take_prompt(which, tokens); };
  request.on_token = [self, which](const serve::GeneratedToken& token) {
    return self->take_token(which, token);
  };
  request.on_beams = [self, which](const auto& texts) { self->take_beams(which, texts); };
  request.ends_beam = serve::ends_beam_at(request_.stop, model_.tokenizer());
  request.on_finish = [self, which](serve::FinishReason reason, const serve::Usage& usage,
                                    const std::string& error) {
    self->finish(which, reason, usage, error);
  };
  return request;
}

void Completion::take_prompt(size_t which,
                             const std::vector<std::optional<serve::GeneratedToken>>& tokens) {
  const std::lock_guard lock(mutex_);
  if (request_.echo && request_.logprobs >= 0) answers_[which].echo(tokens);
  if (request_.prompt_logprobs >= 0) answers_[which].take_prompt(tokens);
}

bool Completion::take_token(size_t which, const serve::GeneratedToken& token) {
  const std::lock_guard lock(mutex_);
  if (over_) return true;  // the request has ended and is being cancelled
  const double since = seconds_since(std::exchange(last_token_[which], Clock::now()));
  Answer& answer = answers_[which];
  metrics_.token(since, /*first=*/answer.num_tokens() == 0);
  if (request_.echo && request_.logprobs < 0 && answer.num_tokens() == 0) answer.echo({});
  const bool goes_on = answer.take(token);
  if (request_.stream && goes_on) write_delta(which);
  return goes_on;
}

void Completion::take_beams(size_t first, const std::vector<serve::BeamText>& texts) {
  if (std::ssize(texts) < request_.n) {
    throw Error(fmt::format("beam search found {} of the {} texts that were asked for",
                            texts.size(), request_.n));
  }
  for (size_t i = 0; i < static_cast<size_t>(request_.n); ++i) {
    beam_reasons_[first + i] = texts[i].reason;
    answers_[first + i].set_beam_score(texts[i].score);
    for (const serve::GeneratedToken& token : texts[i].tokens) {
      if (!take_token(first + i, token)) break;
    }
  }
}

void Completion::finish(size_t which, serve::FinishReason reason, const serve::Usage& usage,
                        const std::string& error) {
  const std::lock_guard lock(mutex_);
  metrics_.finished(reason, usage, seconds_since(start_), request_.model);
  const size_t answers = is_beam_search() ? static_cast<size_t>(request_.n) : 1;
  num_finished_ += answers;
  if (over_) return;
  if (reason == serve::FinishReason::failed || reason == serve::FinishReason::cancelled) {
    return fail(failure(reason, error));
  }
  try {
    for (size_t i = which; i < which + answers; ++i) {
      finish_answer(i, is_beam_search() ? beam_reasons_[i] : reason, usage);
    }
    if (num_finished_ == answers_.size() && submitted_) finish_all();
  } catch (...) {
    fail(ApiError(500, message_of_current_exception()));
  }
}

void Completion::finish_answer(size_t which, serve::FinishReason reason,
                               const serve::Usage& usage) {
  Answer& answer = answers_[which];
  if (request_.echo && request_.logprobs < 0 && answer.num_tokens() == 0) answer.echo({});
  answer.finish(reason, usage);
  if (request_.stream) write_delta(which);
}

void Completion::write_part(const std::string& part) {
  if (part.empty()) return;
  if (!submitted_) {
    held_parts_ += part;
    return;
  }
  if (!std::exchange(streaming_, true)) reply_->begin_stream(writer_->content_type());
  reply_->write_part(part);
}

void Completion::write_delta(size_t which) {
  Answer& answer = answers_[which];
  const auto index = static_cast<int64_t>(which);
  if (!std::exchange(answer.begun, true)) write_part(writer_->begin(index, counts()));
  const AnswerDelta delta = answer.take_delta_if_text();
  if (delta.empty() && !answer.finished()) return;
  write_part(writer_->part(index, delta, answer, counts()));
}

TokenCounts Completion::counts() const {
  TokenCounts counts;
  for (const auto& prompt : request_.prompts) {
    counts.prompt += static_cast<int64_t>(prompt.tokens.size());
  }
  for (size_t which = 0; which < answers_.size(); ++which) {
    counts.completion += answers_[which].num_tokens();
    counts.reasoning += answers_[which].num_reasoning_tokens();
    if (which % static_cast<size_t>(request_.best_of) == 0) {
      counts.cached += answers_[which].usage().cached_tokens;
    }
  }
  return counts;
}

void Completion::finish_all() {
  over_ = true;
  if (request_.stream) {
    write_part(writer_->end(counts()));
    reply_->end_stream();
  } else {
    std::vector<WholeAnswer> answers;
    for (const size_t which : best_answers()) {
      answers.push_back({answers_[which].take_delta(), answers_[which]});
    }
    reply_->send(200, "application/json", to_text(writer_->whole(std::move(answers), counts())));
  }
  log_end("done");
}

// Returns the indices of n answers per prompt; if best_of > n, those with the highest mean
// log-probability, best first.
std::vector<size_t> Completion::best_answers() const {
  std::vector<size_t> all;
  const auto best_of = static_cast<size_t>(request_.best_of), n = static_cast<size_t>(request_.n);
  for (size_t first = 0; first < answers_.size(); first += best_of) {
    std::vector<size_t> of_prompt(best_of);
    std::iota(of_prompt.begin(), of_prompt.end(), first);
    if (best_of > n) {
      std::ranges::stable_sort(of_prompt, std::greater(),
                               [&](size_t which) { return answers_[which].mean_logprob(); });
    }
    all.insert(all.end(), of_prompt.begin(), of_prompt.begin() + request_.n);
  }
  return all;
}

// Ends all answers of the request because one has failed.
void Completion::fail(const ApiError& error) {
  over_ = true;
  if (streaming_) {
    write_part(writer_->error(error));
    reply_->end_stream();
  } else {
    send_error(*reply_, error);
  }
  for (const serve::RequestId id : ids_) engine_.cancel(id);
  log_end(error.what());
}

void Completion::log_end(const char* outcome) const {
  if (!request_.is_logged) return;
  const TokenCounts tokens = counts();
  log::info(
      "id={} outcome=\"{}\" finish={} prompt_tokens={} cached_tokens={} completion_tokens={} "
      "seconds={:.3f}",
      writer_->id(), outcome, answers_[0].finished() ? answers_[0].finish_reason() : "none",
      tokens.prompt, tokens.cached, tokens.completion, seconds_since(start_));
}

}  // namespace colossal::server
