#include "colossal/text/tokenizer/pre_tokenizer.h"

#include "colossal/text/tokenizer/byte_alphabet.h"

namespace colossal::text {
namespace {

using Behavior = SplitDefinition::Behavior;

// Whether a part of a text belongs to the same piece as the part before it.
bool joins(Behavior behavior, bool previous_is_match, bool is_match) {
  switch (behavior) {
    case Behavior::merged_with_previous:
      return is_match && !previous_is_match;
    case Behavior::merged_with_next:
      return !is_match && previous_is_match;
    case Behavior::contiguous:
      return is_match == previous_is_match;
    default:
      return false;
  }
}

// Calls on_part with the matches of the expression and the text between them, from left to right.
// Matches may be empty.
template <typename OnPart>  // void(Regex::Match part, bool is_match)
void for_each_part(const Regex& regex, std::string_view piece, RegexScratch& scratch,
                   const OnPart& on_part) {
  size_t done = 0;
  regex.for_each_match(piece, scratch, [&](Regex::Match match) {
    if (done < match.begin) on_part({done, match.begin}, false);
    on_part(match, true);
    done = match.end;
  });
  if (done < piece.size()) on_part({done, piece.size()}, false);
}

}  // namespace

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerStep>& steps) {
  for (const PreTokenizerStep& step : steps) {
    std::optional<Regex> regex;
    if (step.split) regex.emplace(step.split->pattern.expression, step.split->pattern.name);
    const SplitDefinition split = step.split.value_or(SplitDefinition());
    steps_.push_back({step.space, step.prefix, step.prefix_begins_text_only, std::move(regex),
                      split.behavior, split.invert, step.to_byte_alphabet});
    ends_in_byte_alphabet_ |= step.to_byte_alphabet;
  }
}

void PreTokenizer::split(std::string_view text, bool begins_text, RegexScratch& scratch,
                         const OnWord& on_word) const {
  run_step(0, text, begins_text, scratch, on_word);
}

void PreTokenizer::run_step(size_t index, std::string_view piece, bool begins_text,
                            RegexScratch& scratch, const OnWord& on_word) const {
  if (piece.empty()) return;
  if (index == steps_.size()) {
    return on_word(ends_in_byte_alphabet_ ? *from_byte_alphabet(piece) : piece);
  }
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
  if (!step.regex) return pass_on(index, piece, begins_text, scratch, on_word);
  Regex::Match held{0, 0};  // the piece so far, which the next parts may join
  bool previous_is_match = false;
  const auto give_held = [&] {
    const std::string_view part = piece.substr(held.begin, held.end - held.begin);
    pass_on(index, part, begins_text && held.begin == 0, scratch, on_word);
  };
  for_each_part(*step.regex, piece, scratch, [&](Regex::Match part, bool matches) {
    const bool is_match = matches != step.invert;
    if (is_match && step.behavior == Behavior::removed) return;
    const bool joined = part.begin > 0 && joins(step.behavior, previous_is_match, is_match);
    previous_is_match = is_match;
    if (!joined) {
      give_held();
      held.begin = part.begin;
    }
    held.end = part.end;
  });
  give_held();
}

// Passes a piece that this step has made to the next step.
void PreTokenizer::pass_on(size_t index, std::string_view piece, bool begins_text,
                           RegexScratch& scratch, const OnWord& on_word) const {
  if (!steps_[index].to_byte_alphabet) {
    return run_step(index + 1, piece, begins_text, scratch, on_word);
  }
  run_step(index + 1, to_byte_alphabet(piece), begins_text, scratch, on_word);
}

}  // namespace colossal::text
