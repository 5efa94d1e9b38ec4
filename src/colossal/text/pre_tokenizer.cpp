#include "colossal/text/pre_tokenizer.h"

namespace colossal::text {

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerStep>& steps) {
  for (const PreTokenizerStep& step : steps) {
    std::optional<Regex> regex;
    if (step.split) regex.emplace(step.split->pattern.expression, step.split->pattern.name);
    steps_.push_back({step.space, step.prefix, step.prefix_begins_text_only, std::move(regex),
                      !step.split || step.split->keep_matches,
                      !step.split || step.split->keep_rest});
  }
}

void PreTokenizer::split(std::string_view text, bool begins_text, RegexScratch& scratch,
                         const OnWord& on_word) const {
  run_step(0, text, begins_text, scratch, on_word);
}

void PreTokenizer::run_step(size_t index, std::string_view piece, bool begins_text,
                            RegexScratch& scratch, const OnWord& on_word) const {
  if (piece.empty()) return;
  if (index == steps_.size()) return on_word(piece);
  const Step& step = steps_[index];
  const bool has_spaces = !step.space.empty() && piece.find(' ') != std::string_view::npos;
  if (has_spaces || needs_prefix(step, piece, begins_text)) {
    return cut(index, rewrite(step, piece, begins_text), begins_text, scratch, on_word);
  }
  cut(index, piece, begins_text, scratch, on_word);
}

bool PreTokenizer::needs_prefix(const Step& step, std::string_view piece, bool begins_text) {
  if (step.prefix_begins_text_only && !begins_text) return false;
  return !step.prefix.empty() && !piece.starts_with(step.prefix);
}

std::string PreTokenizer::rewrite(const Step& step, std::string_view piece, bool begins_text) {
  std::string written;
  for (char c : piece) {
    if (c == ' ' && !step.space.empty()) {
      written += step.space;
    } else {
      written += c;
    }
  }
  return needs_prefix(step, written, begins_text) ? step.prefix + written : written;
}

void PreTokenizer::cut(size_t index, std::string_view piece, bool begins_text,
                       RegexScratch& scratch, const OnWord& on_word) const {
  const Step& step = steps_[index];
  const auto give = [&](size_t begin, size_t end) {
    run_step(index + 1, piece.substr(begin, end - begin), begins_text && begin == 0, scratch,
             on_word);
  };
  if (!step.regex) return give(0, piece.size());
  size_t done = 0;
  step.regex->for_each_match(piece, scratch, [&](Regex::Match match) {
    if (step.keep_rest) give(done, match.begin);
    if (step.keep_matches) give(match.begin, match.end);
    done = match.end;
  });
  if (step.keep_rest) give(done, piece.size());
}

}  // namespace colossal::text
