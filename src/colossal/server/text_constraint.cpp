#include "colossal/server/text_constraint.h"

#include <ATen/ops/full.h>

#include <algorithm>

#include "colossal/text/grammar/gbnf.h"
#include "colossal/text/grammar/json_schema.h"
#include "colossal/text/grammar/regular_expression.h"

namespace colossal::server {
namespace {

using text::grammar::Automaton;
using text::grammar::Grammar;

constexpr size_t kMaxRules = 64;
constexpr int64_t kMaxMaskBytes = int64_t{64} << 20;  // masks that a rule caches

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
  std::vector<text::grammar::Sequence> texts;
  for (const Json& text : rule.value) {
    texts.push_back(Grammar::literal(text.get_ref<const std::string&>()));
  }
  return grammar.add_anonymous_rule(std::move(texts));
}

Automaton make_automaton(const TextRule& rule) {
  Grammar grammar;
  const text::grammar::Symbol root = add_rule(grammar, rule);
  return Automaton(grammar, root);
}

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

size_t common_length(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

CompiledRule::CompiledRule(const TextRule& rule, std::shared_ptr<const SortedTokens> tokens,
                           int64_t vocabulary)
    : automaton_(make_automaton(rule)), tokens_(std::move(tokens)), vocabulary_(vocabulary) {}

const at::Tensor& CompiledRule::forbidden(Automaton::State state) {
  const auto known = masks_.find(state);
  if (known != masks_.end()) return known->second;
  if (static_cast<int64_t>(masks_.size() + 1) * vocabulary_ > kMaxMaskBytes) masks_.clear();
  return masks_[state] = make_mask(state);
}

// Tokens are sorted by their bytes. Each token reuses the states of the beginning that it shares
// with the token before.
at::Tensor CompiledRule::make_mask(Automaton::State state) {
  automaton_.begin_work();
  at::Tensor mask = at::full({vocabulary_}, true, at::TensorOptions(at::kBool));
  bool* const forbidden = mask.mutable_data_ptr<bool>();
  // The states after 0, 1, 2, ... bytes of the token before.
  std::vector<Automaton::State> reached{state};
  std::string_view before;
  for (const auto& [bytes, token] : *tokens_) {
    reached.resize(std::min(reached.size(), common_length(bytes, before) + 1));
    while (reached.size() <= bytes.size() && reached.back() != Automaton::kDead) {
      const auto byte = static_cast<unsigned char>(bytes[reached.size() - 1]);
      reached.push_back(automaton_.next(reached.back(), byte));
    }
    forbidden[token] = reached.back() == Automaton::kDead;
    before = bytes;
  }
  return mask;
}

TextConstraint::TextConstraint(std::shared_ptr<CompiledRule> rule, const ServedModel& model,
                               std::vector<int32_t> end_tokens)
    : rule_(std::move(rule)),
      model_(model),
      end_tokens_(std::move(end_tokens)),
      state_(rule_->automaton().start()) {}

void TextConstraint::apply(at::Tensor& logits) {
  if (state_ == Automaton::kDead) return;
  double* const values = logits.mutable_data_ptr<double>();
  std::vector<double> ends;
  for (const int32_t token : end_tokens_) ends.push_back(values[token]);
  logits.masked_fill_(rule_->forbidden(state_), -INFINITY);
  if (!rule_->automaton().may_end(state_)) return;
  for (size_t i = 0; i < ends.size(); ++i) values[end_tokens_[i]] = ends[i];
}

void TextConstraint::accept(int32_t token) {
  if (state_ == Automaton::kDead) return;
  try {
    state_ = rule_->automaton().next(state_, model_.bytes_of(token));
  } catch (const text::grammar::GrammarError&) {  // too many states: ends the text
    state_ = Automaton::kDead;
  }
  finished_ = state_ == Automaton::kDead || rule_->automaton().must_end(state_);
}

std::shared_ptr<CompiledRule> RuleCache::compile(const TextRule& rule, const ServedModel& model,
                                                 const char* field) {
  const std::string key = fmt::format("{} {}", static_cast<int>(rule.kind), to_text(rule.value));
  const auto known = std::ranges::find(recent_, key, [](const auto& entry) { return entry.first; });
  if (known != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, known);
    return known->second;
  }
  if (!tokens_) tokens_ = sort_tokens(model);
  try {
    recent_.emplace_front(key, std::make_shared<CompiledRule>(rule, tokens_, model.vocabulary()));
  } catch (const text::grammar::GrammarError& error) {
    throw ApiError(400, error.what(), field);
  }
  if (recent_.size() > kMaxRules) recent_.pop_back();
  return recent_.front().second;
}

}  // namespace colossal::server
