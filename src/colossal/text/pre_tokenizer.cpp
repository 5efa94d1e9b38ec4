#include "colossal/text/pre_tokenizer.h"

#include <optional>

#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

// All matches from left to right. Of empty ones, those that touch the match before do not count.
template <typename OnMatch>
void for_each_match(const Regex& regex, std::string_view text, RegexScratch& scratch,
                    OnMatch on_match) {
  std::optional<size_t> last_end;
  for (size_t start = 0; start <= text.size();) {
    const auto match = regex.search(text, start, scratch);
    if (!match) return;
    if (match->begin == match->end && last_end == match->end) {
      if (start == text.size()) return;
      next_code_point(text, start);
      continue;
    }
    on_match(*match);
    start = match->end;
    last_end = match->end;
  }
}

}  // namespace

PreTokenizer::PreTokenizer(const TokenizerDefinition& definition)
    : add_prefix_space_(definition.add_prefix_space), prefix_at_(definition.prefix_at) {
  for (const SplitDefinition& split : definition.splits) {
    cuts_.push_back({Regex(split.expression, split.name), split.keep_matches, split.keep_rest});
  }
}

void PreTokenizer::split(std::string_view text, RegexScratch& scratch,
                         const OnWord& on_word) const {
  split_from(0, text, scratch, on_word);
}

void PreTokenizer::split_from(size_t cut, std::string_view piece, RegexScratch& scratch,
                              const OnWord& on_word) const {
  if (piece.empty()) return;
  if (cut == prefix_at_ && add_prefix_space_ && piece[0] != ' ') {
    return run_cut(cut, " " + std::string(piece), scratch, on_word);
  }
  run_cut(cut, piece, scratch, on_word);
}

void PreTokenizer::run_cut(size_t cut, std::string_view piece, RegexScratch& scratch,
                           const OnWord& on_word) const {
  if (cut == cuts_.size()) return on_word(piece);
  const auto& [regex, keep_matches, keep_rest] = cuts_[cut];
  size_t done = 0;
  for_each_match(regex, piece, scratch, [&](Regex::Match match) {
    if (keep_rest) split_from(cut + 1, piece.substr(done, match.begin - done), scratch, on_word);
    if (keep_matches) {
      split_from(cut + 1, piece.substr(match.begin, match.end - match.begin), scratch, on_word);
    }
    done = match.end;
  });
  if (keep_rest) split_from(cut + 1, piece.substr(done), scratch, on_word);
}

}  // namespace colossal::text
