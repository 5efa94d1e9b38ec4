#include "colossal/parallel/pipeline/validator.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "colossal/base/error.h"
#include "colossal/parallel/pipeline/schedule_text.h"
#include "colossal/parallel/pipeline/schedules.h"
#include "tests/pipeline/cases.h"

namespace colossal::parallel::pipeline {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The oracle: the same question as a graph. An edge from what must come first; right where each
// node is there once and there is no circle. With `buffers`, a send comes after the receive that
// leaves room for it.
class Graph {
 public:
  explicit Graph(const Schedule& schedule) : schedule_(schedule) {}

  bool is_right() {
    if (!has_each_action_once()) return false;
    std::map<int, std::vector<int>> sends, receives;
    std::map<int, int> waiting;
    int node = 0;
    for (const std::vector<Action>& actions : schedule_.actions) {
      for (size_t i = 0; i < actions.size(); ++i, ++node) {
        const Action& action = actions[i];
        if (i > 0) edge(node - 1, node);
        if (is_send(action.kind)) sends[channel_of(schedule_, action)].push_back(node);
        if (is_receive(action.kind)) {
          receives[channel_of(schedule_, action)].push_back(node);
          if (++waiting[channel_of(schedule_, action)] > schedule_.buffers) return false;
        }
        const auto receive =
            is_computation(action.kind) ? receive_before(schedule_, action) : std::nullopt;
        if (receive) --waiting[channel_of(schedule_, *receive)];
        for (const Action& need : needs_of(action)) edge(nodes_.at(key_of(need)), node);
      }
    }
    for (const auto& [channel, sent] : sends) {
      const std::vector<int>& received = receives[channel];
      for (size_t i = 0; i < sent.size(); ++i) {
        if (!(send_of(actions_[received[i]]) == actions_[sent[i]])) return false;
        const size_t buffers = schedule_.buffers;
        if (i >= buffers) edge(received[i - buffers], sent[i]);
      }
    }
    return has_no_circle();
  }

 private:
  using Key = std::tuple<ActionKind, int, int>;
  static Key key_of(const Action& one) { return {one.kind, one.stage, one.micro_batch}; }

  bool has_each_action_once() {
    std::multiset<Key> expected, found;
    for (int stage = 0; stage < schedule_.num_stages(); ++stage) {
      for (int i = 0; i < schedule_.num_micro_batches; ++i) {
        const bool whole = has({ActionKind::backward, stage, i});
        std::vector<Action> passes{
            {ActionKind::forward, stage, i},
            {whole ? ActionKind::backward : ActionKind::backward_input, stage, i}};
        for (const Action& one : passes) {
          expected.insert(key_of(one));
          if (const auto receive = receive_before(schedule_, one))
            expected.insert(key_of(*receive));
          if (const auto send = send_after(schedule_, one)) expected.insert(key_of(*send));
        }
        if (!whole) expected.insert({ActionKind::backward_weight, stage, i});
      }
    }
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      for (const Action& one : schedule_.actions[rank]) {
        if (one.stage >= schedule_.num_stages() || schedule_.rank_of_stage[one.stage] != rank) {
          return false;
        }
        nodes_[key_of(one)] = static_cast<int>(actions_.size());
        actions_.push_back(one);
        found.insert(key_of(one));
      }
    }
    edges_.resize(actions_.size());
    return expected == found;
  }

  bool has(const Action& wanted) const {
    for (const std::vector<Action>& actions : schedule_.actions) {
      for (const Action& one : actions) {
        if (key_of(one) == key_of(wanted)) return true;
      }
    }
    return false;
  }

  std::vector<Action> needs_of(const Action& one) const {
    const auto gradient = [&](int stage) {
      const Action whole{ActionKind::backward, stage, one.micro_batch};
      return nodes_.contains(key_of(whole))
                 ? whole
                 : Action{ActionKind::backward_input, stage, one.micro_batch};
    };
    const Action forward{ActionKind::forward, one.stage, one.micro_batch};
    switch (one.kind) {
      case ActionKind::forward:
        if (const auto receive = receive_before(schedule_, one))
          return {*receive, send_of(*receive)};
        if (one.stage == 0) return {};
        return {{ActionKind::forward, one.stage - 1, one.micro_batch}};
      case ActionKind::backward_input:
      case ActionKind::backward:
        if (const auto receive = receive_before(schedule_, one)) {
          return {forward, *receive, send_of(*receive)};
        }
        if (one.stage == schedule_.num_stages() - 1) return {forward};
        return {forward, gradient(one.stage + 1)};
      case ActionKind::backward_weight:
      case ActionKind::send_backward:
        return {gradient(one.stage)};
      case ActionKind::send_forward:
        return {forward};
      default:
        return {};
    }
  }

  void edge(int from, int to) { edges_[from].push_back(to); }

  bool has_no_circle() const {
    std::vector<int> before(edges_.size(), 0), free;
    for (const auto& targets : edges_) {
      for (const int target : targets) ++before[target];
    }
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i] == 0) free.push_back(static_cast<int>(i));
    }
    size_t done = 0;
    for (; !free.empty(); ++done) {
      const int node = free.back();
      free.pop_back();
      for (const int target : edges_[node]) {
        if (--before[target] == 0) free.push_back(target);
      }
    }
    return done == edges_.size();
  }

  const Schedule& schedule_;
  std::vector<Action> actions_;
  std::map<Key, int> nodes_;
  std::vector<std::vector<int>> edges_;
};

struct Mutation {
  std::string what;
  Schedule schedule;
};

// Each action swapped with the next, dropped, doubled, moved to the next rank, and with another
// micro-batch, stage or kind.
std::vector<Mutation> mutations_of(const Schedule& original) {
  std::vector<Mutation> mutations;
  for (int rank = 0; rank < original.num_ranks(); ++rank) {
    const int size = static_cast<int>(original.actions[rank].size());
    for (int i = 0; i < size; ++i) {
      const auto add = [&](const std::string& what, const auto& change) {
        Mutation mutation{fmt::format("{} {} at rank {}, position {}", what,
                                      action_name(original.actions[rank][i]), rank, i),
                          original};
        // Pairs have a test of their own.
        for (auto& actions : mutation.schedule.actions) {
          for (Action& action : actions) action.overlaps_next = false;
        }
        change(mutation.schedule, mutation.schedule.actions[rank]);
        mutations.push_back(std::move(mutation));
      };
      using Actions = std::vector<Action>;
      for (const int distance : {1, 3}) {
        if (i + distance >= size) continue;
        add("swap", [&](Schedule&, Actions& own) { std::swap(own[i], own[i + distance]); });
      }
      add("drop", [&](Schedule&, Actions& own) { own.erase(own.begin() + i); });
      add("double", [&](Schedule&, Actions& own) { own.insert(own.begin() + i, Action(own[i])); });
      add("double at the end", [&](Schedule&, Actions& own) { own.push_back(Action(own[i])); });
      if (original.num_ranks() > 1) {
        add("move", [&](Schedule& all, Actions& own) {
          Actions& other = all.actions[(rank + 1) % all.num_ranks()];
          other.insert(other.begin() + std::min<size_t>(i, other.size()), own[i]);
          own.erase(own.begin() + i);
        });
      }
      add("renumber", [&](Schedule& all, Actions& own) {
        own[i].micro_batch = (own[i].micro_batch + 1) % (all.num_micro_batches + 1);
      });
      add("restage", [&](Schedule& all, Actions& own) {
        own[i].stage = (own[i].stage + 1) % (all.num_stages() + 1);
      });
      add("rename", [&](Schedule&, Actions& own) {
        own[i].kind = static_cast<ActionKind>((static_cast<int>(own[i].kind) + 1) % 8);
      });
    }
  }
  return mutations;
}

TEST(Validator, SeesEveryMutationThatMakesAScheduleWrong) {
  int wrong = 0, right = 0;
  for (const BuiltInSchedule& built_in : schedules()) {
    for (const PipelineShape& shape : {PipelineShape{3, built_in.default_chunks, 4},
                                       PipelineShape{2, most_chunks(built_in), 3}}) {
      for (const int buffers : {1, 2}) {
        const Schedule original = make_schedule(built_in.name, with_buffers(shape, buffers));
        ASSERT_TRUE(Graph(original).is_right());
        for (const Mutation& mutation : mutations_of(original)) {
          const auto conflict = first_conflict(mutation.schedule);
          const bool is_right = Graph(mutation.schedule).is_right();
          ++(is_right ? right : wrong);
          ASSERT_EQ(!conflict, is_right) << built_in.name << ": " << mutation.what << "\n"
                                         << (conflict ? conflict->message : "found right") << "\n"
                                         << schedule_text(mutation.schedule);
          if (!conflict) continue;
          // It names where and what.
          EXPECT_THAT(conflict->message, HasSubstr(fmt::format("rank {}", conflict->rank)))
              << mutation.what;
          const auto& actions = mutation.schedule.actions[conflict->rank];
          if (conflict->position < static_cast<int>(actions.size())) {
            EXPECT_THAT(conflict->message,
                        HasSubstr(fmt::format("rank {}, position {}: {} ", conflict->rank,
                                              conflict->position,
                                              action_name(actions[conflict->position]))))
                << mutation.what;
          }
        }
      }
    }
  }
  EXPECT_GT(wrong, 10'000);
  EXPECT_GT(right, 100);  // a weight gradient or a receive may often come a little later
}

std::string conflict_of(const std::string& text) {
  const auto conflict = first_conflict(parse_schedule(text, "text"));
  return conflict ? conflict->message : "right";
}

const std::string kTwoRanks = "name: two\nmicro_batches: 2\nbuffers: 1\nrank_of_stage: 0 1\n";

TEST(Validator, NamesTheFirstConflict) {
  EXPECT_EQ(conflict_of(kTwoRanks + "rank 0: F0.0 F0.1 B0.0 B0.1\nrank 1: F1.0 B1.0 F1.1 B1.1\n"),
            "right");
  EXPECT_EQ(conflict_of(kTwoRanks + "rank 0: F0.0 F0.1 B0.0 B0.1\nrank 1: F1.0 B1.0 F1.1\n"),
            "rank 1, after its 6 actions: I1.1 is missing, and so is B1.1");
  EXPECT_EQ(conflict_of(kTwoRanks + "rank 0: F0.0 F0.1 B0.0 B0.1\nrank 1: B1.0 F1.0 F1.1 B1.1\n"),
            "rank 1, position 1: B1.0 waits for F1.0, which only comes at position 3");
  EXPECT_EQ(
      conflict_of(kTwoRanks + "rank 0: F0.0 B0.0 F0.0 F0.1 B0.1\nrank 1: F1.0 B1.0 F1.1 B1.1"),
      "rank 0, position 5: F0.0 occurs twice, first at position 1");
  EXPECT_EQ(conflict_of(kTwoRanks + "rank 0: F0.0 F0.1 B0.0 B0.1\nrank 1: F1.0 I1.0 F1.1 B1.1"),
            "rank 1, after its 8 actions: W1.0 is missing");
}

// Rank 0 wants the gradient of the first micro-batch before it computes the second; rank 1 wants
// the second one first.
TEST(Validator, NamesTheCircleOfADeadlock) {
  EXPECT_EQ(
      conflict_of("name: d\nmicro_batches: 2\nbuffers: 2\nrank_of_stage: 0 1\n"
                  "rank 0: F0.0 B0.0 F0.1 B0.1\nrank 1: F1.0 F1.1 B1.0 B1.1\n"),
      "rank 0, position 4: B0.0 waits for SB1.0 (rank 1, position 5); rank 1, position 3: F1.1 "
      "waits for SF0.1 (rank 0, position 6); there are 2 buffers a channel");
}

// Rank 0 sends four micro-batches before it needs anything; rank 1 takes one and waits for another.
TEST(Validator, FindsDeadlocksOfBuffers) {
  const std::string head = "name: d\nmicro_batches: 4\nrank_of_stage: 0 1 0 1\n";
  const std::string ranks =
      "rank 0: F0.0 F0.1 F0.2 F0.3 F2.0 F2.1 F2.2 F2.3 B2.0 B2.1 B2.2 B2.3 B0.0 B0.1 B0.2 B0.3\n"
      "rank 1: F1.0 F3.0 F1.1 F3.1 F1.2 F3.2 F1.3 F3.3 B3.0 B1.0 B3.1 B1.1 B3.2 B1.2 B3.3 B1.3\n";
  EXPECT_THAT(conflict_of(head + "buffers: 1\n" + ranks),
              AllOf(HasSubstr("SF0.3 waits for RF1.2"), HasSubstr("there is 1 buffer a channel")));
  EXPECT_EQ(conflict_of(head + "buffers: 2\n" + ranks), "right");
}

TEST(Validator, ChecksPairsThatRunTogether) {
  const std::string head = "name: p\nmicro_batches: 2\nrank_of_stage: 0 1\n";
  const std::string other = "\nrank 1: F1.0 B1.0 F1.1 B1.1\n";
  EXPECT_EQ(conflict_of(head + "rank 0: F0.0 F0.1& B0.0 B0.1" + other), "right");
  EXPECT_THAT(conflict_of(head + "rank 0: F0.0 F0.1 B0.0 B0.1&" + other),
              HasSubstr("B0.1 has no computation after it"));
  // One after the other it runs; together, the forward would be sent too late for the backward.
  EXPECT_THAT(conflict_of(head + "rank 0: F0.0& B0.0 F0.1 B0.1" + other),
              HasSubstr("F0.0 cannot run together with B0.0"));
  EXPECT_THAT(conflict_of("name: p\nmicro_batches: 2\nrank_of_stage: 0 1\n"
                          "rank 0: F0.0 F0.1& B0.0 B0.1\nrank 1: F1.0 F1.1 B1.0 B1.1\n"),
              AllOf(HasSubstr("waits for"), HasSubstr("pairs run together")));
}

TEST(Validator, ChecksSizes) {
  Schedule schedule = make_schedule("1f1b", {2, 1, 1});
  schedule.rank_of_stage = {0, 2};
  EXPECT_THAT(first_conflict(schedule)->message, HasSubstr("stage 1 is on rank 2"));
  schedule.rank_of_stage = {0, 0};
  EXPECT_THAT(first_conflict(schedule)->message, HasSubstr("rank 1 has no stage"));
  schedule = make_schedule("1f1b", {2, 1, 1});
  schedule.buffers = 0;
  EXPECT_THAT(first_conflict(schedule)->message, HasSubstr("no buffer"));
  EXPECT_THAT(first_conflict(Schedule{})->message, HasSubstr("no rank"));
}

TEST(Validator, ThrowsForAUser) {
  Schedule schedule = make_schedule("1f1b", {2, 1, 1});
  EXPECT_NO_THROW(check_schedule(schedule));
  schedule.actions[1].clear();
  EXPECT_THROW(check_schedule(schedule), ConfigError);
}

}  // namespace
}  // namespace colossal::parallel::pipeline
