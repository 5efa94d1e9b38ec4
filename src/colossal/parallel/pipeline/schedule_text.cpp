#include "colossal/parallel/pipeline/schedule_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "colossal/base/error.h"
#include "colossal/parallel/pipeline/communication.h"

namespace colossal::parallel::pipeline {
namespace {

constexpr int kBuffersWithoutTheKey = 2;
constexpr int kLargestNumber = 1'000'000;

constexpr ActionKind kKinds[] = {ActionKind::forward,         ActionKind::backward_input,
                                 ActionKind::backward_weight, ActionKind::backward,
                                 ActionKind::send_forward,    ActionKind::receive_forward,
                                 ActionKind::send_backward,   ActionKind::receive_backward};

struct Word {
  std::string_view text;
  int column = 0;  // starts at 1
};

// Splits a line, up to a comment, into words. A colon ends a word and is not part of a word.
std::vector<Word> words_of(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<Word> words;
  for (size_t at = 0; at < line.size();) {
    const size_t begin = line.find_first_not_of(" \t\r", at);
    if (begin == line.npos) break;
    const size_t stop = std::min(line.find_first_of(" \t\r:", begin), line.size());
    const size_t end = stop < line.size() && line[stop] == ':' ? stop + 1 : stop;
    words.push_back({line.substr(begin, end - begin), static_cast<int>(begin) + 1});
    at = end;
  }
  return words;
}

class Parser {
 public:
  explicit Parser(std::string_view source) : source_(source) {}

  Schedule parse(std::string_view text) {
    while (!text.empty()) {
      ++line_;
      const size_t end = std::min(text.find('\n'), text.size());
      parse_line(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    check_complete();
    const bool has_messages = std::ranges::any_of(schedule_.actions, [](const auto& actions) {
      return std::ranges::any_of(actions,
                                 [](const Action& one) { return !is_computation(one.kind); });
    });
    return has_messages ? std::move(schedule_)
                        : with_communication(std::move(schedule_), schedule_.buffers);
  }

 private:
  [[noreturn]] void fail(int column, const std::string& message) const {
    throw ConfigError(fmt::format("{}, line {}, column {}: {}", source_, line_, column, message));
  }

  void parse_line(std::string_view line) {
    const std::vector<Word> words = words_of(line);
    if (words.empty()) return;
    const Word& key = words.front();
    const std::span<const Word> values = std::span(words).subspan(1);
    if (key.text != "rank" && !keys_.insert(std::string(key.text)).second) {
      fail(key.column, fmt::format("{} is given twice", key.text));
    }
    if (key.text == "name:") {
      parse_name(line, key);
    } else if (key.text == "micro_batches:") {
      schedule_.num_micro_batches = only_number(key, values);
    } else if (key.text == "buffers:") {
      schedule_.buffers = only_number(key, values);
    } else if (key.text == "rank_of_stage:") {
      parse_placement(key, values);
    } else if (key.text == "rank") {
      parse_rank(key, values);
    } else {
      fail(key.column, fmt::format("\"{}\" is not known here; a line begins with name:, "
                                   "micro_batches:, buffers:, rank_of_stage: or rank N:",
                                   key.text));
    }
  }

  // Reads the rest of the line up to a comment: a name may contain blanks.
  void parse_name(std::string_view line, const Word& key) {
    line = line.substr(0, line.find('#')).substr(key.column - 1 + key.text.size());
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == line.npos) fail(key.column, "a name is missing after name:");
    schedule_.name = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
  }

  int number(const Word& word, std::string_view digits, std::string_view what) const {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0 ||
        value > kLargestNumber) {
      fail(word.column, fmt::format("\"{}\" should be {}, a whole number from 0 to {}", word.text,
                                    what, kLargestNumber));
    }
    return value;
  }

  int only_number(const Word& key, std::span<const Word> values) const {
    if (values.empty()) fail(key.column, fmt::format("a number is missing after {}", key.text));
    if (values.size() > 1) {
      fail(values[1].column,
           fmt::format("\"{}\" is too much: {} has one number", values[1].text, key.text));
    }
    const int value = number(values[0], values[0].text, "a number");
    if (value < 1) fail(values[0].column, fmt::format("{} must be 1 or more", key.text));
    return value;
  }

  void parse_placement(const Word& key, std::span<const Word> values) {
    if (values.empty()) fail(key.column, "the rank of each stage is missing after rank_of_stage:");
    int ranks = 0;
    for (const Word& word : values) {
      const int rank = number(word, word.text, "the rank of a stage");
      schedule_.rank_of_stage.push_back(rank);
      ranks = std::max(ranks, rank + 1);
    }
    if (ranks > static_cast<int>(values.size())) {
      fail(key.column, fmt::format("there are {} ranks and only {} stages; every rank needs one",
                                   ranks, values.size()));
    }
    schedule_.actions.resize(ranks);
  }

  void parse_rank(const Word& key, std::span<const Word> values) {
    if (schedule_.num_micro_batches == 0 || schedule_.rank_of_stage.empty()) {
      fail(key.column, "micro_batches: and rank_of_stage: must come before the ranks");
    }
    if (values.empty() || !values[0].text.ends_with(':')) {
      fail(key.column, "a line of a rank begins with rank N:");
    }
    const std::string_view digits = values[0].text.substr(0, values[0].text.size() - 1);
    const int rank = number(values[0], digits, "a rank");
    if (rank >= schedule_.num_ranks()) {
      fail(values[0].column,
           fmt::format("rank {} has no stage: rank_of_stage: has the ranks 0 to {}", rank,
                       schedule_.num_ranks() - 1));
    }
    for (const Word& word : values.subspan(1)) {
      schedule_.actions[rank].push_back(action(word));
    }
  }

  Action action(const Word& word) const {
    std::string_view text = word.text;
    Action action;
    if (text.ends_with('&')) {
      action.overlaps_next = true;
      text.remove_suffix(1);
    }
    const size_t letters = std::min(text.find_first_of("0123456789"), text.size());
    const auto kind = std::ranges::find(kKinds, text.substr(0, letters), kind_name);
    const size_t dot = text.find('.');
    if (kind == std::end(kKinds) || dot == text.npos) {
      fail(word.column, fmt::format("\"{}\" is not an action; actions look like F0.1 (F, B, I, W, "
                                    "SF, RF, SB or RB, the stage, a dot, the micro-batch)",
                                    word.text));
    }
    action.kind = *kind;
    action.stage = number(word, text.substr(letters, dot - letters), "an action of a stage");
    action.micro_batch = number(word, text.substr(dot + 1), "an action of a micro-batch");
    if (action.stage >= schedule_.num_stages()) {
      fail(word.column, fmt::format("\"{}\": there is no stage {}; rank_of_stage: has {}",
                                    word.text, action.stage, schedule_.num_stages()));
    }
    if (action.micro_batch >= schedule_.num_micro_batches) {
      fail(word.column, fmt::format("\"{}\": there is no micro-batch {}; micro_batches: is {}",
                                    word.text, action.micro_batch, schedule_.num_micro_batches));
    }
    return action;
  }

  void check_complete() {
    if (schedule_.num_micro_batches == 0) fail(1, "the file ends without micro_batches:");
    if (schedule_.rank_of_stage.empty()) fail(1, "the file ends without rank_of_stage:");
  }

  std::string_view source_;
  int line_ = 0;
  std::set<std::string> keys_;
  Schedule schedule_{.buffers = kBuffersWithoutTheKey};
};

}  // namespace

std::string schedule_text(const Schedule& schedule) {
  std::string text = fmt::format(
      "# F forward, B backward, I and W its input and weight gradient; SF, RF, SB, RB messages.\n"
      "# Each with its stage and micro-batch.\n"
      "name: {}\nmicro_batches: {}\nbuffers: {}\nrank_of_stage: {}\n",
      schedule.name, schedule.num_micro_batches, schedule.buffers,
      fmt::join(schedule.rank_of_stage, " "));
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    text += fmt::format("rank {}:", rank);
    for (const Action& action : schedule.actions[rank]) {
      text += fmt::format(" {}{}", action_name(action), action.overlaps_next ? "&" : "");
    }
    text += '\n';
  }
  return text;
}

Schedule parse_schedule(std::string_view text, std::string_view source) {
  return Parser(source).parse(text);
}

}  // namespace colossal::parallel::pipeline
