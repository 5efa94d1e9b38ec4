// Compiles the rules of requests, and makes their masks, on threads of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "colossal/server/compiled_rule.h"
#include "colossal/server/served_model.h"

namespace colossal::server {

// Runs functions one after the other on a thread of its own.
class TaskThread {
 public:
  TaskThread();
  // Waits for the function that runs; those that wait are dropped.
  ~TaskThread();
  void push(std::function<void()> task);
  size_t num_waiting() const;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stops_ = false;
  std::thread thread_;
};

// A mask that is being made.
struct PendingMask {
  std::atomic<bool> is_done = false;
  std::shared_ptr<const TokenMask> mask;  // once done; null if it could not be made
};

// The rule of a request: compiled, being compiled, or refused. Thread-safe.
class RequestedRule {
 public:
  // Calls `action` once the rule is compiled or refused: now, or later on another thread.
  void when_done(std::function<void()> action);
  // Waits until the rule is compiled or refused. For tests.
  void wait();
  // Returns the rule. Throws ApiError 400, for the request's field `field`, if the schema,
  // expression or grammar is invalid or uses unsupported features. Call when done.
  std::shared_ptr<CompiledRule> get(const std::string& field) const;

 private:
  friend class RuleCache;
  void finish(std::shared_ptr<CompiledRule> rule, std::string error);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_done_ = false;
  std::shared_ptr<CompiledRule> rule_;
  std::string error_;
  std::vector<std::function<void()>> actions_;
};

// LRU cache of the compiled rules of one model. All rules together take a limited number of bytes.
// Functions may be called from one thread, make_mask() from any thread.
class RuleCache {
 public:
  // Returns the rule, from the cache or new. model: the same in all calls; must outlive the cache.
  // Throws ApiError 429 if too many rules wait to be compiled.
  std::shared_ptr<RequestedRule> find(const TextRule& rule, const ServedModel& model);
  // Refuses the rules that are not compiled yet, and all later ones, and waits until no request's
  // action is under way: the engine is about to end.
  void stop();
  // Returns the mask of a place, which a thread makes if the rule does not have it.
  std::shared_ptr<const PendingMask> make_mask(std::shared_ptr<CompiledRule> rule,
                                               CompiledRule::Place place);

 private:
  std::shared_ptr<RuleBytes> bytes_ = std::make_shared<RuleBytes>();
  std::shared_ptr<const SortedTokens> tokens_;  // of the model; null before the first rule
  // Rules by their text, most recently used first.
  std::list<std::pair<std::string, std::shared_ptr<RequestedRule>>> recent_;
  std::atomic<bool> is_stopped_ = false;
  TaskThread compiler_, masks_;
};

}  // namespace colossal::server
