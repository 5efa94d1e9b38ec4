#include "colossal/server/rule_cache.h"

#include <algorithm>
#include <future>

#include "colossal/server/api_error.h"

namespace colossal::server {
namespace {

constexpr size_t kMaxRules = 64;
constexpr size_t kMaxWaiting = 64;  // rules that wait to be compiled

std::shared_ptr<const SortedTokens> sort_tokens(const ServedModel& model) {
  auto tokens = std::make_shared<SortedTokens>();
  const auto count = static_cast<int32_t>(
      std::min<int64_t>(model.vocabulary(), model.tokenizer().vocabulary_size()));
  for (int32_t token = 0; token < count; ++token) {
    std::string bytes = model.is_special(token) ? "" : model.bytes_of(token);
    if (!bytes.empty()) tokens->emplace_back(std::move(bytes), token);
  }
  std::ranges::sort(*tokens);
  return tokens;
}

}  // namespace

TaskThread::TaskThread() : thread_([this] { run(); }) {}

TaskThread::~TaskThread() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void TaskThread::push(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

size_t TaskThread::num_waiting() const {
  const std::lock_guard lock(mutex_);
  return tasks_.size();
}

void TaskThread::run() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stops_ || !tasks_.empty(); });
      if (stops_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

void RequestedRule::when_done(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_done_) {
      actions_.push_back(std::move(action));
      return;
    }
  }
  action();
}

void RequestedRule::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_done_; });
}

std::shared_ptr<CompiledRule> RequestedRule::get(const std::string& field) const {
  const std::lock_guard lock(mutex_);
  if (!rule_) throw ApiError(400, error_, field);
  return rule_;
}

void RequestedRule::finish(std::shared_ptr<CompiledRule> rule, std::string error) {
  std::vector<std::function<void()>> actions;
  {
    const std::lock_guard lock(mutex_);
    rule_ = std::move(rule);
    error_ = std::move(error);
    is_done_ = true;
    actions.swap(actions_);
    changed_.notify_all();
  }
  for (const auto& action : actions) action();
}

std::shared_ptr<RequestedRule> RuleCache::find(const TextRule& rule, const ServedModel& model) {
  const std::string key = fmt::format("{} {}", static_cast<int>(rule.kind), to_text(rule.value));
  const auto known = std::ranges::find(recent_, key, [](const auto& entry) { return entry.first; });
  if (known != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, known);
    return known->second;
  }
  if (compiler_.num_waiting() >= kMaxWaiting) {
    ApiError error(429, "too many schemas and grammars are being compiled; try again soon");
    error.retry_after = 1;
    throw error;
  }
  const auto requested = std::make_shared<RequestedRule>();
  recent_.emplace_front(key, requested);
  while (recent_.size() > 1 && (recent_.size() > kMaxRules || bytes_->are_too_many())) {
    recent_.pop_back();
  }
  compiler_.push([this, rule, requested, &model] {
    try {
      if (is_stopped_) throw Error("the server is stopping; try again later");
      if (!tokens_) tokens_ = sort_tokens(model);
      auto compiled = std::make_shared<CompiledRule>(rule, tokens_, model.vocabulary(), bytes_);
      if (is_stopped_) throw Error("the server is stopping; try again later");
      requested->finish(std::move(compiled), "");
    } catch (const std::exception& error) {
      requested->finish(nullptr, error.what());
    }
  });
  return requested;
}

void RuleCache::stop() {
  is_stopped_ = true;
  std::promise<void> reached;
  compiler_.push([&] { reached.set_value(); });
  reached.get_future().wait();
}

std::shared_ptr<const PendingMask> RuleCache::make_mask(std::shared_ptr<CompiledRule> rule,
                                                        CompiledRule::Place place) {
  const auto pending = std::make_shared<PendingMask>();
  pending->mask = rule->find_mask(place);
  if (pending->mask) {
    pending->is_done = true;
    return pending;
  }
  masks_.push([rule = std::move(rule), place = std::move(place), pending] {
    try {
      pending->mask = rule->mask(place);
    } catch (const std::exception&) {  // the engine's thread tries again, and reports the error
    }
    pending->is_done = true;
  });
  return pending;
}

}  // namespace colossal::server
