// Plans against brute force over elements, which knows neither runs nor rules for single steps.
#include "colossal/layout/redistribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

#include "colossal/comm/law.h"
#include "tests/layout/all_layouts.h"

namespace colossal {
namespace {

using test::all_layouts;
using test::dims_of;
using test::grid_of;

using Elements = uint64_t;  // a set of elements of a tensor of at most 64

int64_t count(Elements elements) {
  return std::popcount(elements);
}

struct Cost {
  int64_t elements = std::numeric_limits<int64_t>::max() / 2;
  int calls = 0;
  auto operator<=>(const Cost&) const = default;
};

// Who has which elements, by asking for each one.
class Holding {
 public:
  explicit Holding(const Layout& layout)
      : grid_(layout.grid()),
        partial_(layout.partial_axes()),
        sharded_(layout.sharded_axes()),
        of_rank_(grid_.num_ranks()) {
    const std::vector<int64_t> shape = layout.shape();
    for (int rank = 0; rank < grid_.num_ranks(); ++rank) {
      for (int64_t element = 0; element < shape[0] * shape[1]; ++element) {
        const std::vector<int64_t> index{element / shape[1], element % shape[1]};
        if (layout.offset(rank, index)) of_rank_[rank] |= Elements{1} << element;
      }
    }
  }

  // What all ranks send in one call, or in a move without any; nothing: there is no such call.
  std::optional<Cost> to(const Holding& after) const {
    if (partial_ == after.partial_) return exchange(after);
    if (includes(partial_, after.partial_)) return sum(after);
    if (includes(after.partial_, partial_)) return spread(after);
    return std::nullopt;
  }

 private:
  static bool includes(const AxisSet& axes, const AxisSet& others) {
    return std::includes(axes.begin(), axes.end(), others.begin(), others.end());
  }
  // Ranks that differ from `rank` along axes that only one of the two sets has.
  std::vector<int> group(int rank, const AxisSet& some, const AxisSet& others) const {
    AxisSet axes;
    std::set_symmetric_difference(some.begin(), some.end(), others.begin(), others.end(),
                                  std::back_inserter(axes));
    return grid_.ranks_along(rank, axes);
  }

  // Each rank gets what it lacks from ranks that are at its own place along axes without shards.
  Cost exchange(const Holding& after) const {
    int64_t sent = 0;
    for (int rank = 0; rank < grid_.num_ranks(); ++rank) {
      for (int peer : grid_.ranks_along(rank, sharded_)) {
        if (peer != rank) sent += count(of_rank_[rank] & after.of_rank_[peer]);
      }
    }
    return {sent, sent > 0 ? 1 : 0};
  }

  std::optional<Cost> sum(const Holding& after) const {
    int64_t sent = 0;
    for (int rank = 0; rank < grid_.num_ranks(); ++rank) {
      const std::vector<int> peers = group(rank, partial_, after.partial_);
      const Elements here = of_rank_[rank];
      const int size = static_cast<int>(peers.size());
      const int place =
          static_cast<int>(std::find(peers.begin(), peers.end(), rank) - peers.begin());
      Elements together = 0;
      int64_t pieces = 0;
      for (int peer : peers) {
        together |= after.of_rank_[peer];
        pieces += count(after.of_rank_[peer]);
      }
      if (together != here) return std::nullopt;
      if (pieces == size * count(here)) {
        sent += comm::law::all_reduce(count(here), size, place, 1);
      } else if (pieces == count(here)) {
        sent += count(here) - count(after.of_rank_[rank]);
      } else {
        return std::nullopt;
      }
    }
    return Cost{sent, 1};
  }

  // Terms that the ranks can make of what they have: zeros for what another one brings.
  std::optional<Cost> spread(const Holding& after) const {
    for (int rank = 0; rank < grid_.num_ranks(); ++rank) {
      Elements together = 0;
      for (int peer : group(rank, partial_, after.partial_)) together |= of_rank_[peer];
      if (together != after.of_rank_[rank]) return std::nullopt;
    }
    return Cost{0, 0};
  }

  RankGrid grid_;
  AxisSet partial_;
  AxisSet sharded_;
  std::vector<Elements> of_rank_;
};

// The cheapest of all chains of at most `max_calls` calls from one layout to each of all, with
// moves that need no call wherever they are allowed.
class BruteForce {
 public:
  explicit BruteForce(const std::vector<Layout>& layouts) {
    std::vector<Holding> holdings;
    for (const Layout& layout : layouts) holdings.emplace_back(layout);
    for (const Holding& before : holdings) {
      auto& row = single_.emplace_back();
      for (const Holding& after : holdings) row.push_back(before.to(after));
    }
  }

  std::vector<Cost> from(size_t start, int max_calls) const {
    std::vector<Cost> best(single_.size());
    best[start] = {0, 0};
    free_moves(best);
    for (int call = 0; call < max_calls; ++call) {
      const std::vector<Cost> before = best;
      for (size_t i = 0; i < best.size(); ++i) {
        for (size_t j = 0; j < best.size(); ++j) {
          const auto& step = single_[i][j];
          if (step && step->calls == 1) relax(best[j], before[i], *step);
        }
      }
      free_moves(best);
    }
    return best;
  }

 private:
  static bool relax(Cost& cost, const Cost& before, const Cost& step) {
    const Cost through{before.elements + step.elements, before.calls + step.calls};
    if (through >= cost) return false;
    cost = through;
    return true;
  }

  void free_moves(std::vector<Cost>& best) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < best.size(); ++i) {
        for (size_t j = 0; j < best.size(); ++j) {
          const auto& step = single_[i][j];
          if (step && step->calls == 0 && relax(best[j], best[i], *step)) changed = true;
        }
      }
    }
  }

  std::vector<std::vector<std::optional<Cost>>> single_;
};

// How many pairs were compared, and how many plans have more calls than brute force looks at.
struct Compared {
  int pairs = 0;
  int longer = 0;
};

// Plans keep to the axes that are in zigzag at one of the ends; so does brute force.
AxisSet zigzag_axes_of(const Layout& from, const Layout& to) {
  AxisSet axes;
  for (const Layout* layout : {&from, &to}) {
    for (const Layout::Dim& dim : layout->dims()) {
      for (const Layout::Shard& shard : dim.shards) {
        if (shard.cut == Cut::zigzag) axes.push_back(shard.axis);
      }
    }
  }
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

Compared compare(const std::vector<int>& grid, const std::vector<Layout::Dim>& dims,
                 const AxisSet& zigzag_axes, double share) {
  const std::vector<Layout> layouts = all_layouts(grid_of(grid), dims, zigzag_axes);
  const BruteForce brute_force(layouts);
  std::mt19937 random(1);
  std::bernoulli_distribution taken(share);
  Compared compared;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const std::vector<Cost> best = brute_force.from(i, 3);
    for (size_t j = 0; j < layouts.size(); ++j) {
      if (zigzag_axes_of(layouts[i], layouts[j]) != zigzag_axes || !taken(random)) continue;
      const RedistributionPlan plan(layouts[i], layouts[j]);
      ++compared.pairs;
      if (plan.num_calls() > 3) {
        ++compared.longer;
        EXPECT_LT(plan.elements_sent(), best[j].elements);
        continue;
      }
      EXPECT_EQ((Cost{plan.elements_sent(), plan.num_calls()}), best[j])
          << describe(layouts[i]) << " to " << describe(layouts[j]) << ": " << describe(plan)
          << " of " << plan.elements_sent() << " elements, brute force " << best[j].elements
          << " in " << best[j].calls << " calls";
    }
  }
  return compared;
}

TEST(RedistributionPlan, EqualsBruteForceOnSmallGrids) {
  int pairs = 0;
  for (const std::vector<int>& grid :
       std::vector<std::vector<int>>{{1}, {2}, {3}, {2, 1}, {2, 2}, {3, 2}}) {
    const Compared compared = compare(grid, dims_of({7, 5}), {}, 1);
    EXPECT_EQ(compared.longer, 0);
    pairs += compared.pairs;
  }
  EXPECT_EQ(pairs, 3 * 4 * 4 + 3 * 18 * 18);
}

TEST(RedistributionPlan, EqualsBruteForceWithZigzagAndUnits) {
  const std::vector<Layout::Dim> dims{{{{9, 2}}}, {{{4}, {2}}}};
  for (const AxisSet& zigzag_axes : std::vector<AxisSet>{{0}, {0, 1}}) {
    const Compared compared = compare({2, 2}, dims, zigzag_axes, 0.3);
    EXPECT_GT(compared.pairs, 100);
    EXPECT_EQ(compared.longer, 0);
  }
}

TEST(RedistributionPlan, EqualsBruteForceOnSomeLayoutsOf2x2x2) {
  const Compared compared = compare({2, 2, 2}, dims_of({9, 7}), {}, 0.005);
  EXPECT_GT(compared.pairs, 20);
  EXPECT_EQ(compared.longer, 0);
}

TEST(SlowRedistributionPlan, EqualsBruteForceOnAllLayoutsOf2x2x2) {
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{9, 7}, {5, 3}}) {
    const Compared compared = compare({2, 2, 2}, dims_of(shape), {}, 1);
    EXPECT_EQ(compared.pairs, 92 * 92);
    EXPECT_EQ(compared.longer, 0);
  }
}

TEST(RedistributionPlan, SlicesAndTermsAreFree) {
  const RankGrid grid = grid_of({2, 2});
  const Layout whole(grid, dims_of({7, 5}));
  for (const Layout& layout : all_layouts(grid, dims_of({7, 5}))) {
    const RedistributionPlan plan(whole, layout);
    EXPECT_EQ(plan.num_calls(), 0) << describe(layout);
    EXPECT_LE(plan.steps().size(), 2U);
  }
}

TEST(RedistributionPlan, NothingToDo) {
  const Layout layout(grid_of({2}), {{{{5}}, {{0}}}});
  EXPECT_TRUE(RedistributionPlan(layout, layout).steps().empty());
  EXPECT_EQ(describe(RedistributionPlan(layout, layout)), "nothing");
}

// Of sizes that divide: the lines of docs/laws.md, by rank.
TEST(RedistributionPlan, EvenSizesCostTheLaws) {
  for (const int n : {2, 3, 4}) {
    const RankGrid line = grid_of({n});
    const int64_t rows = 12, columns = 24, all = rows * columns;
    const Layout whole(line, dims_of({rows, columns})), terms = whole.conjugate();
    const Layout by_rows(line, {{{{rows}}, {{0}}}, {{{columns}}}});
    const Layout by_columns(line, {{{{rows}}}, {{{columns}}, {{0}}}});
    const RankGrid square = grid_of({n, n});
    const Layout block(square, {{{{rows}}, {{0}}}, {{{columns}}, {{1}}}});
    const Layout mirror(square, {{{{rows}}, {{1}}}, {{{columns}}, {{0}}}});
    const RedistributionPlan to_mirror(block, mirror);
    for (int rank = 0; rank < n; ++rank) {
      const auto sent = [&](const Layout& from, const Layout& to) {
        return RedistributionPlan(from, to).elements_sent(rank);
      };
      EXPECT_EQ(sent(by_rows, whole), (n - 1) * all / n);
      EXPECT_EQ(sent(terms, by_columns), (n - 1) * all / n);
      EXPECT_EQ(sent(terms, whole), 2 * (n - 1) * all / n);
      EXPECT_EQ(sent(by_rows, by_columns), (n - 1) * all / (n * n));  // Ulysses
      // The transposed block of a tied head.
      EXPECT_EQ(to_mirror.elements_sent(rank), rank == 0 ? 0 : all / (n * n));
    }
  }
}

// Where an axis holds copies, a sum over another one is cheaper in pieces.
TEST(RedistributionPlan, UsesRanksThatHoldTheSame) {
  const RankGrid grid = grid_of({4, 2});
  const Layout partial(grid, dims_of({16, 3}), {0});
  const Layout whole(grid, dims_of({16, 3}));
  const RedistributionPlan plan(partial, whole);
  // Of 48 elements each rank gives up 18 of its half and gathers 42. Two all-reduces of all of them
  // would be 2 * 2 * 3 * 48.
  EXPECT_EQ(describe(plan), "slice, reduce_scatter over a, all_gather over a+b");
  EXPECT_EQ(plan.elements_sent(), 8 * (18 + 42));
}

TEST(RedistributionPlan, OtherSegmentsTakeOneExchange) {
  const RankGrid grid = grid_of({3});
  const Layout qkv(grid, {{{{6, 2}, {4, 2}, {4, 2}}, {{0}}}});
  const Layout plain(grid, {{{{14}}, {{0}}}});
  const RedistributionPlan plan(qkv, plain);
  EXPECT_EQ(describe(plan), "all_to_all over a");
  // By hand: ranks have {0-1, 6-7, 10-11}, {2-3, 8-9, 12-13}, {4-5} and want 0-4, 5-9, 10-13.
  EXPECT_EQ(plan.elements_sent(0), 2 + 2);
  EXPECT_EQ(plan.elements_sent(1), 2 + 2);
  EXPECT_EQ(plan.elements_sent(2), 2);
}

// docs/layouts.md shows what this computes.
TEST(RedistributionPlan, TableOfTheDocs) {
  const RankGrid grid({{"dp", 2}, {"tp", 3}});
  const int dp = grid.axis("dp"), tp = grid.axis("tp");
  const auto layout = [&](std::vector<Layout::Shard> rows, std::vector<Layout::Shard> columns,
                          const AxisSet& partial) {
    return Layout(grid, {{{{1000}}, std::move(rows)}, {{{301}}, std::move(columns)}}, partial);
  };
  const Layout replicated = layout({}, {}, {});
  const Layout rows = layout({{tp}}, {}, {});
  const Layout columns = layout({}, {{tp}}, {});
  const Layout terms = layout({}, {}, {tp});
  const std::vector<std::pair<Layout, Layout>> examples{
      {replicated, rows},
      {rows, replicated},
      {rows, layout({{tp, Cut::zigzag}}, {}, {})},
      {rows, columns},
      {layout({{dp}}, {{tp}}, {}), layout({{tp}}, {{dp}}, {})},
      {layout({{dp}, {tp}}, {}, {}), layout({{tp}, {dp}}, {}, {})},
      {layout({}, {}, {dp, tp}), rows},
      {layout({}, {}, {dp, tp}), replicated},
      {terms, rows},
      {terms, layout({{dp}}, {}, {tp})},
      {terms, replicated},
      {layout({}, {{tp}}, {dp}), rows},
      {rows, terms},
  };
  std::string table =
      "| from | to | steps | all ranks send | the busiest |\n|---|---|---|---|---|\n";
  for (const auto& [from, to] : examples) {
    const RedistributionPlan plan(from, to);
    int64_t busiest = 0;
    for (int rank = 0; rank < grid.num_ranks(); ++rank) {
      busiest = std::max(busiest, plan.elements_sent(rank));
    }
    table += fmt::format("| {} | {} | {} | {} | {} |\n", describe(from), describe(to),
                         describe(plan), plan.elements_sent(), busiest);
  }
  std::ifstream file(COLOSSAL_TEST_SOURCE_DIR "/docs/layouts.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_NE(page.str().find(table), std::string::npos) << "docs/layouts.md lacks\n" << table;
}

}  // namespace
}  // namespace colossal
