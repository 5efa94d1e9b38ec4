#include "colossal/server/compiled_rule.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "colossal/text/grammar/gbnf.h"
#include "colossal/text/grammar/json_rules.h"
#include "colossal/text/grammar/json_schema.h"
#include "colossal/text/grammar/regular_expression.h"

namespace colossal::server {
namespace {

using text::grammar::Automaton;
using text::grammar::Grammar;
using text::grammar::GrammarError;

using Clock = std::chrono::steady_clock;

// While a mask is made, other threads can use the rule after the first time, for the second.
constexpr std::chrono::microseconds kMaxLocked(500), kUnlocked(20);
// Masks that are made while a rule is compiled.
constexpr int kFirstMasks = 4;

text::grammar::Symbol add_rule(Grammar& grammar, const TextRule& rule) {
  switch (rule.kind) {
    case TextRule::Kind::json_object:
      return text::grammar::add_json_object(grammar);
    case TextRule::Kind::json_schema:
      return text::grammar::add_json_schema(grammar, rule.value);
    case TextRule::Kind::regular_expression:
      return text::grammar::add_regular_expression(grammar,
                                                   rule.value.get_ref<const std::string&>());
    case TextRule::Kind::grammar:
      return text::grammar::add_gbnf(grammar, rule.value.get_ref<const std::string&>());
    case TextRule::Kind::choice:
      break;
  }
  std::set<std::string> texts;
  for (const Json& text : rule.value) texts.insert(text.get<std::string>());
  return text::grammar::add_texts(grammar, texts);
}

std::shared_ptr<Automaton> make_automaton(const TextRule& rule) {
  Grammar grammar;
  const text::grammar::Symbol root = add_rule(grammar, rule);
  return std::make_shared<Automaton>(grammar, root);
}

size_t common_length(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

CompiledRule::CompiledRule(const TextRule& rule, std::shared_ptr<const SortedTokens> tokens,
                           int64_t vocabulary, std::shared_ptr<RuleBytes> bytes)
    : tokens_(std::move(tokens)),
      vocabulary_(vocabulary),
      bytes_(std::move(bytes)),
      automaton_(make_automaton(rule)) {
  // A rule whose first states take too long is refused; later on, masks would leave tokens out.
  Place place = start();
  for (int i = 0; i < kFirstMasks && !place.is_dead() && !must_end(place); ++i) {
    automaton_->begin_work();
    std::string longest;
    for (const auto& [text, token] : *tokens_) {
      if (text.size() > longest.size() && automaton_->next(place.state, text) != Automaton::kDead) {
        longest = text;
      }
    }
    mask(place);
    place = next(place, longest);
  }
}

CompiledRule::~CompiledRule() {
  bytes_->add(-counted_bytes_);
}

CompiledRule::Place CompiledRule::start() {
  const std::lock_guard lock(mutex_);
  return {automaton_, automaton_->start()};
}

CompiledRule::State CompiledRule::here(const Place& place) {
  if (place.automaton == automaton_) return place.state;
  automaton_->begin_work();
  return automaton_->adopt(*place.automaton, place.state);
}

void CompiledRule::renew() {
  automaton_ = std::make_shared<Automaton>(automaton_->program());
  masks_.clear();
}

void CompiledRule::count_bytes() {
  int64_t now = static_cast<int64_t>(automaton_->bytes());
  if (!masks_.empty()) {
    now += static_cast<int64_t>(masks_.size() * masks_.begin()->second->bytes());
  }
  bytes_->add(now - std::exchange(counted_bytes_, now));
}

CompiledRule::Place CompiledRule::next(const Place& place, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (automaton_->is_full()) renew();
  automaton_->begin_work();
  State state = here(place);
  for (const char byte : bytes) {
    try {
      state = automaton_->next(state, static_cast<unsigned char>(byte));
    } catch (const GrammarError&) {  // full, or much work: the bytes that follow get as much again
      const Place before{automaton_, state};
      if (automaton_->is_full()) renew();
      automaton_->begin_work();
      state = automaton_->next(here(before), static_cast<unsigned char>(byte));
    }
  }
  count_bytes();
  return {automaton_, state};
}

bool CompiledRule::may_end(const Place& place) const {
  const std::lock_guard lock(mutex_);
  return place.automaton->may_end(place.state);
}

bool CompiledRule::must_end(const Place& place) const {
  const std::lock_guard lock(mutex_);
  return place.automaton->must_end(place.state);
}

std::shared_ptr<const TokenMask> CompiledRule::find_mask(const Place& place) const {
  const std::lock_guard lock(mutex_);
  if (place.automaton != automaton_) return nullptr;
  const auto known = masks_.find(place.state);
  return known == masks_.end() ? nullptr : known->second;
}

std::shared_ptr<const TokenMask> CompiledRule::mask(const Place& place) {
  if (auto known = find_mask(place)) return known;
  const auto mask = std::make_shared<const TokenMask>(make_mask(place));
  const std::lock_guard lock(mutex_);
  count_bytes();
  if (bytes_->are_too_many()) renew();
  if (place.automaton == automaton_) masks_[place.state] = mask;
  count_bytes();
  return mask;
}

// Tokens are sorted by their bytes. Each token reuses the states of the beginning that it shares
// with the token before.
TokenMask CompiledRule::make_mask(const Place& place) {
  TokenMask mask(vocabulary_);
  bool has_allowed = false;
  std::shared_ptr<Automaton> automaton;
  // The states after 0, 1, 2, ... bytes of the token before.
  std::vector<State> reached;
  std::string_view before;
  std::unique_lock lock(mutex_);
  automaton_->begin_work();
  auto locked = Clock::now();
  for (const auto& [bytes, token] : *tokens_) {
    if (Clock::now() - locked > kMaxLocked) {
      lock.unlock();
      std::this_thread::sleep_for(kUnlocked);
      lock.lock();
      locked = Clock::now();
    }
    try {
      if (automaton_->is_full()) renew();
      if (automaton != automaton_) {
        automaton = automaton_;
        reached = {here(place)};
      }
      reached.resize(std::min(reached.size(), common_length(bytes, before) + 1));
      while (reached.size() <= bytes.size() && reached.back() != Automaton::kDead) {
        const auto byte = static_cast<unsigned char>(bytes[reached.size() - 1]);
        reached.push_back(automaton_->next(reached.back(), byte));
      }
    } catch (const GrammarError&) {
      // Too much work. Other tokens may be left out once one is allowed.
      if (has_allowed) return mask;
      automaton_->begin_work();
      automaton = nullptr;
      continue;
    }
    before = bytes;
    if (reached.back() == Automaton::kDead) continue;
    mask.allow(token);
    has_allowed = true;
  }
  return mask;
}

}  // namespace colossal::server
