#include "colossal/job/nearest_layout.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "colossal/base/error.h"

namespace colossal {
namespace {

constexpr size_t kMostChanges = 3;
// By the number of changed settings: how many of the nearest values of each setting are tried.
// Every combination is tried.
constexpr size_t kValuesTried[] = {0, 100, 10, 5};
constexpr size_t kAlternativesTold = 2;
// distance between two words, or between a given and an unset setting
constexpr double kOfAWord = 0.5;

struct Asked {
  RunConfig config;
  int ranks = 1;
};

// Another value of a setting.
struct Change {
  double distance = 0;  // between sizes: the absolute log2 of their ratio
  std::function<void(Asked&)> apply;
};

// A setting and its other values, nearest first.
struct Setting {
  std::string key;
  std::vector<Change> changes;
};

double distance(int64_t from, int64_t to) {
  return std::abs(std::log2(static_cast<double>(std::max<int64_t>(1, from))) -
                  std::log2(static_cast<double>(std::max<int64_t>(1, to))));
}

std::set<int64_t> divisors(int64_t number) {
  std::set<int64_t> found;
  for (int64_t i = 1; i * i <= number; ++i) {
    if (number % i == 0) found.insert({i, number / i});
  }
  return found;
}

// Returns the multiples of each divisor of `ranks` that are nearest to `number`; dp is one of the
// divisors.
std::set<int64_t> multiples_near(int64_t number, int ranks) {
  std::set<int64_t> found;
  for (const int64_t divisor : divisors(ranks)) {
    found.insert(std::max<int64_t>(1, number / divisor) * divisor);
    found.insert((number / divisor + 1) * divisor);
  }
  return found;
}

Setting of_sizes(const std::string& key, int64_t asked, const std::set<int64_t>& values,
                 const std::function<void(Asked&, int64_t)>& set) {
  Setting setting{key, {}};
  for (const int64_t value : values) {
    if (value == asked) continue;
    setting.changes.push_back({distance(asked, value), [=](Asked& a) { set(a, value); }});
  }
  return setting;
}

Setting of_words(const std::string& key, const std::string& asked,
                 const std::vector<std::string>& words,
                 const std::function<void(Asked&, const std::string&)>& set) {
  Setting setting{key, {}};
  for (const std::string& word : words) {
    if (word != asked) setting.changes.push_back({kOfAWord, [=](Asked& a) { set(a, word); }});
  }
  return setting;
}

// Describes removing a setting that was given.
Setting left_out(const std::string& key, bool given, const std::function<void(Asked&)>& leave_out) {
  Setting setting{key, {}};
  if (given) setting.changes.push_back({kOfAWord, leave_out});
  return setting;
}

// Returns numbers of ranks to try: whole replicas of the requested size, and the divisors of the
// global batch.
std::set<int64_t> ranks_near(const RunConfig& config, int ranks) {
  constexpr int64_t kMost = 1 << 20;
  const ParallelConfig& parallel = config.parallel;
  std::set<int64_t> replicas = divisors(config.train.global_batch), found = replicas;
  const auto size = static_cast<double>(parallel.pp) * static_cast<double>(parallel.sp) *
                    static_cast<double>(parallel.tp);
  if (size >= 1 && size <= kMost) {
    const auto of_replica = static_cast<int64_t>(size);
    replicas.insert({ranks / of_replica, ranks / of_replica + 1, parallel.dp.value_or(1)});
    for (const int64_t count : replicas) found.insert(count * of_replica);
  }
  std::erase_if(found, [](int64_t number) { return number < 1 || number > kMost; });
  return found;
}

std::vector<Setting> settings_of(const Asked& asked) {
  const ParallelConfig& parallel = asked.config.parallel;
  const std::set<int64_t> parts = divisors(asked.ranks);
  const int64_t sequence = asked.config.data.sequence_length.value_or(256);
  std::vector<Setting> settings{
      of_sizes("train.global_batch", asked.config.train.global_batch,
               multiples_near(asked.config.train.global_batch, asked.ranks),
               [](Asked& a, int64_t batch) { a.config.train.global_batch = batch; }),
      of_sizes("parallel.tp", parallel.tp, parts,
               [](Asked& a, int64_t tp) { a.config.parallel.tp = tp; }),
      of_sizes("parallel.sp", parallel.sp, parts,
               [](Asked& a, int64_t sp) { a.config.parallel.sp = sp; }),
      of_sizes("parallel.pp", parallel.pp, parallel.pp > 1 ? parts : std::set<int64_t>{},
               [](Asked& a, int64_t pp) { a.config.parallel.pp = pp; }),
      of_sizes("parallel.ep", parallel.ep, parallel.ep > 1 ? parts : std::set<int64_t>{},
               [](Asked& a, int64_t ep) { a.config.parallel.ep = ep; }),
      of_sizes("parallel.expert_tp", parallel.expert_tp,
               parallel.expert_tp > 1 ? parts : std::set<int64_t>{},
               [](Asked& a, int64_t size) { a.config.parallel.expert_tp = size; }),
      left_out("parallel.dp", parallel.dp.has_value(),
               [](Asked& a) { a.config.parallel.dp.reset(); }),
      of_words("parallel.tp_mode", parallel.tp_mode,
               parallel.tp_depth ? std::vector<std::string>{"2.5d", "1d"}
                                 : std::vector<std::string>{"1d"},
               [](Asked& a, const std::string& mode) { a.config.parallel.tp_mode = mode; }),
      left_out("parallel.tp_depth", parallel.tp_depth.has_value(),
               [](Asked& a) { a.config.parallel.tp_depth.reset(); }),
      left_out("parallel.tp_sequence", parallel.tp_sequence.has_value(),
               [](Asked& a) { a.config.parallel.tp_sequence.reset(); }),
      of_words("parallel.sp_mode", parallel.sp_mode, {"ring"},
               [](Asked& a, const std::string& mode) { a.config.parallel.sp_mode = mode; }),
      of_sizes("data.sequence_length", sequence,
               sequence < parallel.sp ? std::set<int64_t>{parallel.sp} : std::set<int64_t>{},
               [](Asked& a, int64_t length) { a.config.data.sequence_length = length; }),
      of_sizes("--ranks", asked.ranks, ranks_near(asked.config, asked.ranks),
               [](Asked& a, int64_t ranks) { a.ranks = static_cast<int>(ranks); })};
  if (const auto* group = std::get_if<int64_t>(&parallel.zero_group)) {
    settings.push_back(of_sizes("parallel.zero_group", *group, parts, [](Asked& a, int64_t size) {
      a.config.parallel.zero_group = size;
    }));
  }
  if (parallel.zero) {
    Setting zero{"parallel.zero", {}};
    for (int64_t stage = 0; stage <= 3; ++stage) {
      if (stage == *parallel.zero) continue;
      zero.changes.push_back({static_cast<double>(std::abs(stage - *parallel.zero)),
                              [=](Asked& a) { a.config.parallel.zero = stage; }});
    }
    settings.push_back(std::move(zero));
  }
  for (Setting& setting : settings) {
    std::ranges::stable_sort(setting.changes, {}, &Change::distance);
  }
  return settings;
}

struct Alternative {
  std::vector<std::string> keys;
  double distance = 0;
  Asked asked;
  Strategy strategy;
};

std::string value_of(const std::string& key, const Alternative& alternative) {
  const ParallelConfig& parallel = alternative.asked.config.parallel;
  if (key == "--ranks") return fmt::format("--ranks={}", alternative.asked.ranks);
  if (key == "parallel.tp_depth" || key == "parallel.tp_sequence") return key + " left out";
  const auto is = [&](const auto& value) { return fmt::format("{} = {}", key, value); };
  if (key == "parallel.tp") return is(alternative.strategy.tp);
  if (key == "parallel.sp") return is(alternative.strategy.sp);
  if (key == "parallel.pp") return is(alternative.strategy.pp);
  if (key == "parallel.ep") return is(alternative.strategy.ep);
  if (key == "parallel.expert_tp") return is(alternative.strategy.expert_tp);
  if (key == "parallel.dp") return is(alternative.strategy.dp);
  if (key == "parallel.zero") return is(alternative.strategy.zero);
  if (key == "parallel.zero_group") return is(alternative.strategy.zero_group);
  if (key == "parallel.tp_mode") return is("\"" + parallel.tp_mode + "\"");
  if (key == "parallel.sp_mode") return is("\"" + parallel.sp_mode + "\"");
  if (key == "train.global_batch") return is(alternative.asked.config.train.global_batch);
  COLOSSAL_CHECK(key == "data.sequence_length", "no text for a change of {}", key);
  return is(*alternative.asked.config.data.sequence_length);
}

// Returns "parallel.tp = 3 (dp = 2)", or for several settings "parallel.tp = 1 and
// train.global_batch = 14".
std::string describe(const Alternative& alternative) {
  std::vector<std::string> texts;
  for (const std::string& key : alternative.keys) texts.push_back(value_of(key, alternative));
  const bool dp_follows =
      !alternative.asked.config.parallel.dp &&
      std::ranges::any_of(alternative.keys, [](const std::string& key) {
        return key == "parallel.tp" || key == "parallel.sp" || key == "parallel.pp";
      });
  return fmt::format("{}{}", fmt::join(texts, " and "),
                     dp_follows ? fmt::format(" (dp = {})", alternative.strategy.dp) : "");
}

class Search {
 public:
  Search(const Asked& asked, const Validate& validate)
      : settings_(settings_of(asked)), validate_(validate) {}

  // Returns all valid alternatives with `changes` settings changed.
  std::vector<Alternative> with_changes(const Asked& asked, size_t changes) {
    found_.clear();
    tried_ = kValuesTried[changes];
    visit({.asked = asked}, 0, changes);
    return std::move(found_);
  }

 private:
  // Changes `left` more settings, from number `first` on.
  void visit(const Alternative& alternative, size_t first, size_t left) {
    if (left == 0) return try_it(alternative);
    for (size_t i = first; i < settings_.size(); ++i) {
      const std::vector<Change>& changes = settings_[i].changes;
      for (const Change& change : std::span(changes).first(std::min(changes.size(), tried_))) {
        Alternative longer = alternative;
        longer.keys.push_back(settings_[i].key);
        longer.distance += change.distance;
        change.apply(longer.asked);
        visit(longer, i + 1, left - 1);
      }
    }
  }

  void try_it(Alternative alternative) {
    try {
      alternative.strategy = validate_(alternative.asked.config, alternative.asked.ranks);
      found_.push_back(std::move(alternative));
    } catch (const ConfigError&) {  // does not work either
    }
  }

  std::vector<Setting> settings_;
  const Validate& validate_;
  std::vector<Alternative> found_;
  size_t tried_ = 0;
};

}  // namespace

std::string nearest_layouts(const RunConfig& config, int ranks, const Validate& validate) {
  const Asked asked{config, ranks};
  Search search(asked, validate);
  for (size_t changes = 1; changes <= kMostChanges; ++changes) {
    std::vector<Alternative> alternatives = search.with_changes(asked, changes);
    std::ranges::stable_sort(alternatives, {}, [&](const Alternative& alternative) {
      return std::pair(alternative.asked.ranks != ranks, alternative.distance);
    });
    std::vector<std::string> told;
    std::set<std::vector<std::string>> keys;
    for (const Alternative& alternative : alternatives) {
      if (told.size() < kAlternativesTold && keys.insert(alternative.keys).second)
        told.push_back(describe(alternative));
    }
    if (!told.empty()) return fmt::format("{}", fmt::join(told, ", or "));
  }
  return "";
}

}  // namespace colossal
