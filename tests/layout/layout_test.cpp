#include "colossal/layout/layout.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "colossal/base/error.h"
#include "colossal/layout/heads.h"
#include "tests/layout/all_layouts.h"

namespace colossal {
namespace {

using test::all_layouts;
using test::dims_of;
using test::grid_of;
using testing::ElementsAre;
using testing::IsEmpty;

using Indices = std::vector<int64_t>;

Indices indices_of(const Runs& runs) {
  Indices indices;
  for (const Range& run : runs) {
    EXPECT_FALSE(run.empty());
    for (int64_t index = run.begin; index < run.end; ++index) indices.push_back(index);
  }
  return indices;
}

// The units of a line, shared out by counting them: of n parts each next one has a share of what is
// left, rounded up.
std::vector<std::vector<Indices>> shared_out(std::vector<Indices> units, int parts) {
  std::vector<std::vector<Indices>> shares;
  for (int part = 0; part < parts; ++part) {
    const size_t left = static_cast<size_t>(parts - part);
    const auto count = static_cast<std::ptrdiff_t>((units.size() + left - 1) / left);
    shares.emplace_back(units.begin(), units.begin() + count);
    units.erase(units.begin(), units.begin() + count);
  }
  return shares;
}

// What `rank` has of a dim, by the definition.
Indices expected_indices(const Layout& layout, int dim, int rank) {
  Indices all;
  int64_t begin = 0;
  for (const Segment& segment : layout.dims()[dim].segments) {
    std::vector<Indices> units;
    for (int64_t i = 0; i < segment.size; ++i) {
      if (i % segment.unit == 0) units.emplace_back();
      units.back().push_back(begin + i);
    }
    begin += segment.size;
    for (const Layout::Shard& shard : layout.dims()[dim].shards) {
      const int parts = layout.grid().size(shard.axis);
      const int part = layout.grid().coordinate(rank, shard.axis);
      if (shard.cut == Cut::contiguous) {
        units = shared_out(units, parts)[part];
      } else {
        const auto pieces = shared_out(units, 2 * parts);
        units = pieces[part];
        const auto& mirrored = pieces[2 * parts - 1 - part];
        units.insert(units.end(), mirrored.begin(), mirrored.end());
      }
    }
    for (const Indices& unit : units) all.insert(all.end(), unit.begin(), unit.end());
  }
  return all;
}

TEST(Layout, PicturesOfTheDocs) {
  const RankGrid grid({{"dp", 2}, {"tp", 2}});
  const Layout layout(grid,
                      {{.segments = {{5}}, .shards = {{0}}}, {.segments = {{3}}, .shards = {{1}}}});
  EXPECT_THAT(layout.held(0), ElementsAre(ElementsAre(Range{0, 3}), ElementsAre(Range{0, 2})));
  EXPECT_THAT(layout.held(3), ElementsAre(ElementsAre(Range{3, 5}), ElementsAre(Range{2, 3})));
  EXPECT_THAT(layout.local_shape(3), ElementsAre(2, 1));
  EXPECT_EQ(layout.owner(std::vector<int64_t>{4, 2}), 3);
  EXPECT_THAT(layout.reduction_axes({0}), IsEmpty());

  const auto rows_of = [&](const std::vector<Layout::Shard>& shards) {
    const Layout rows(grid, {{{{5}}, shards}});
    std::vector<Indices> of_ranks;
    for (int rank = 0; rank < 4; ++rank) of_ranks.push_back(indices_of(rows.held(rank, 0)));
    return of_ranks;
  };
  EXPECT_EQ(rows_of({{0}, {1}}), (std::vector<Indices>{{0, 1}, {2}, {3}, {4}}));
  EXPECT_EQ(rows_of({{1}, {0}}), (std::vector<Indices>{{0, 1}, {3}, {2}, {4}}));
  EXPECT_EQ(rows_of({{1}}), (std::vector<Indices>{{0, 1, 2}, {3, 4}, {0, 1, 2}, {3, 4}}));

  const Layout qkv(RankGrid({{"tp", 2}}), {{{{6, 2}, {4, 2}, {4, 2}}, {{0}}}});
  EXPECT_EQ(indices_of(qkv.held(0, 0)), (Indices{0, 1, 2, 3, 6, 7, 10, 11}));
  EXPECT_EQ(indices_of(qkv.held(1, 0)), (Indices{4, 5, 8, 9, 12, 13}));

  const Layout zigzag(RankGrid({{"sp", 3}}), {{{{13}}, {{0, Cut::zigzag}}}});
  EXPECT_EQ(indices_of(zigzag.held(0, 0)), (Indices{0, 1, 2, 11, 12}));
  EXPECT_EQ(indices_of(zigzag.held(1, 0)), (Indices{3, 4, 9, 10}));
  EXPECT_EQ(indices_of(zigzag.held(2, 0)), (Indices{5, 6, 7, 8}));
}

TEST(Layout, SegmentsAreCutAsHeldOfSegmentsDoes) {
  const std::vector<Segment> qkv{{24, 4}, {8, 4}, {8, 4}};
  for (int parts = 1; parts <= 7; ++parts) {
    const Layout layout(RankGrid({{"tp", parts}}), {{qkv, {{0}}}});
    for (int rank = 0; rank < parts; ++rank) {
      EXPECT_EQ(layout.held(rank, 0), indices_of_part(qkv, parts, rank));
    }
  }
}

TEST(Layout, HoldsWhatTheDefinitionSays) {
  const std::vector<Layout::Dim> dims{{{{13}, {10, 4}}}, {{{5}}}};
  int compared = 0;
  for (const std::vector<int>& sizes : std::vector<std::vector<int>>{{5}, {2, 3}, {3, 2, 2}}) {
    const RankGrid grid = grid_of(sizes);
    for (const Layout& layout : all_layouts(grid, dims, {0, 1, 2})) {
      for (int rank = 0; rank < grid.num_ranks(); ++rank) {
        for (int dim = 0; dim < 2; ++dim, ++compared) {
          ASSERT_EQ(indices_of(layout.held(rank, dim)), expected_indices(layout, dim, rank))
              << describe(layout) << ", rank " << rank << ", dim " << dim;
        }
      }
    }
  }
  EXPECT_GT(compared, 5000);
}

// Every element has one owner, the first of its holders, and lies where offset() says; replicas are
// numbered without gaps.
TEST(Layout, OwnersAndOffsetsAgreeWithWhatIsHeld) {
  const RankGrid grid = grid_of({2, 3});
  const std::vector<Layout::Dim> dims{{{{7, 2}}}, {{{4}}}};
  for (const Layout& layout : all_layouts(grid, dims, {0, 1, 2})) {
    SCOPED_TRACE(describe(layout));
    std::vector<int64_t> next(grid.num_ranks());
    for (int64_t row = 0; row < 7; ++row) {
      for (int64_t column = 0; column < 4; ++column) {
        const Indices index{row, column};
        std::vector<int> holders, replicas;
        for (int rank = 0; rank < grid.num_ranks(); ++rank) {
          const Indices rows = expected_indices(layout, 0, rank);
          const Indices columns = expected_indices(layout, 1, rank);
          const bool here = std::count(rows.begin(), rows.end(), row) > 0 &&
                            std::count(columns.begin(), columns.end(), column) > 0;
          const std::optional<int64_t> offset = layout.offset(rank, index);
          ASSERT_EQ(offset.has_value(), here);
          if (!here) continue;
          EXPECT_EQ(*offset, next[rank]++);
          holders.push_back(rank);
          replicas.push_back(layout.copy_index(rank));
        }
        ASSERT_FALSE(holders.empty());
        EXPECT_EQ(layout.owner(index), holders.front());
        std::vector<int> numbered(layout.num_copies());
        std::iota(numbered.begin(), numbered.end(), 0);
        EXPECT_EQ(replicas, numbered);
      }
    }
    for (int rank = 0; rank < grid.num_ranks(); ++rank) {
      EXPECT_EQ(next[rank], layout.local_numel(rank));
    }
  }
}

TEST(Layout, AxesOfOneRankMakeNoDifference) {
  const RankGrid grid({{"a", 1}, {"b", 2}, {"c", 1}});
  const Layout layout(grid, {{{{5}}, {{0}, {1}}}}, {2});
  EXPECT_EQ(layout, Layout(grid, {{{{5}}, {{1}}}}));
  EXPECT_THAT(layout.replicated_axes(), IsEmpty());
}

TEST(Layout, AnAxisHasOneUse) {
  const RankGrid grid = grid_of({2, 2});
  EXPECT_THROW(Layout(grid, {{{{5}}, {{0}}}, {{{5}}, {{0}}}}), InternalError);
  EXPECT_THROW(Layout(grid, {{{{5}}, {{0}}}}, {0}), InternalError);
}

TEST(Layout, GradientsAreSummedOverReplicasThatSeeDifferentData) {
  const RankGrid grid(Strategy{.dp = 2, .sp = 2, .tp = 2});
  const int dp = grid.axis("dp"), sp = grid.axis("sp"), tp = grid.axis("tp");
  const Layout weight(grid, {{{{6}}, {{tp}}}, {{{4}}}});
  const Layout norm(grid, {{{{4}}}});
  EXPECT_THAT(weight.reduction_axes({dp, sp}), ElementsAre(dp, sp));
  EXPECT_THAT(norm.reduction_axes({dp, sp}), ElementsAre(dp, sp));
  EXPECT_THAT(norm.reduction_axes({dp, sp, tp}), ElementsAre(dp, sp, tp));  // tp_sequence
  const int last = grid.num_ranks() - 1;
  EXPECT_EQ(norm.num_copies(), 8);
  EXPECT_EQ(norm.num_copies({dp, sp}), 2);
  EXPECT_EQ(norm.copy_index(last, {dp, sp}), 1);
  EXPECT_EQ(weight.num_copies({dp, sp}), 1);
  EXPECT_EQ(weight.copy_index(last, {dp, sp}), 0);
  const Layout gradient = weight.conjugate();
  EXPECT_THAT(gradient.partial_axes(), ElementsAre(dp, sp));
  EXPECT_EQ(gradient.dims(), weight.dims());
  EXPECT_EQ(gradient.conjugate(), weight);
}

TEST(Layout, Description) {
  const RankGrid grid(Strategy{.dp = 2, .sp = 2, .tp = 2});
  const int dp = grid.axis("dp"), sp = grid.axis("sp"), tp = grid.axis("tp");
  const std::vector<Segment> six{{6}};
  EXPECT_EQ(describe(Layout(grid, {{six}, {six}})), "replicated");
  EXPECT_EQ(describe(Layout(grid, {{six, {{sp, Cut::zigzag}, {tp}}}, {six}}, {dp})),
            "dim 0 over sp in zigzag, tp; partial over dp");
}

// Blocks of a matrix in tensor parallelism of more dims are layouts over factors of tp.
TEST(Layout, FactorsOfTp) {
  const RankGrid grid =
      RankGrid(Strategy{.dp = 2, .tp = 8}).split("tp", {{"depth", 2}, {"row", 2}, {"column", 2}});
  const int row = grid.axis("row"), column = grid.axis("column");
  const Layout weight(grid, {{{{10}}, {{row}}}, {{{7}}, {{column}}}});
  const int rank = 8 + 4 + 2 + 1;  // the last one of all
  EXPECT_THAT(weight.held(rank), ElementsAre(ElementsAre(Range{5, 10}), ElementsAre(Range{4, 7})));
  EXPECT_EQ(weight.num_copies(), 4);
  EXPECT_EQ(weight.copy_index(rank), 3);
  EXPECT_THAT(weight.reduction_axes({grid.axis("dp"), grid.axis("depth")}),
              ElementsAre(grid.axis("dp"), grid.axis("depth")));
}

TEST(Heads, EveryRankHasTheKeysAndValuesOfItsQueries) {
  int uneven = 0;
  for (int ranks = 1; ranks <= 12; ++ranks) {
    for (int64_t key_value_heads : {1, 2, 3, 4, 6, 8}) {
      for (int64_t group : {1, 2, 3, 5}) {
        const int64_t heads = key_value_heads * group;
        const HeadSharding sharding =
            shard_heads(RankGrid({{"dp", 2}, {"tp", ranks}}), "tp", heads, key_value_heads);
        const Layout queries(sharding.grid, {sharding.queries});
        const Layout keys(sharding.grid, {sharding.keys_values});
        int64_t all = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const Indices of_keys = indices_of(keys.held(rank, 0));
          for (int64_t query : indices_of(queries.held(rank, 0))) {
            EXPECT_EQ(std::count(of_keys.begin(), of_keys.end(), query / group), 1)
                << fmt::format("{} ranks, {} heads, {} of keys and values, query {} on rank {}",
                               ranks, heads, key_value_heads, query, rank);
            ++all;
          }
        }
        EXPECT_EQ(all, heads);
        for (int rank = 0; rank < ranks && heads >= ranks; ++rank) {
          const nn::LocalHeads share = local_heads_of(heads, key_value_heads, ranks, rank);
          EXPECT_THAT(queries.held(rank, 0), ElementsAre(share.queries));
          EXPECT_THAT(keys.held(rank, 0), ElementsAre(share.keys));
        }
        if (group == 1) continue;
        const int parts = static_cast<int>(std::gcd(key_value_heads, ranks));
        EXPECT_EQ(key_value_replicas(heads, key_value_heads, ranks), ranks / parts);
        EXPECT_EQ(keys.num_copies(), 2 * ranks / parts);
        EXPECT_EQ(keys.local_numel(0), key_value_heads / parts);
        if (heads % ranks != 0) ++uneven;
      }
    }
  }
  EXPECT_GT(uneven, 50);
}

TEST(Heads, AsManyKeysAsQueriesAreCutAlike) {
  EXPECT_EQ(key_value_replicas(6, 6, 4), 1);
  for (int rank = 0; rank < 4; ++rank) {
    const nn::LocalHeads share = local_heads_of(6, 6, 4, rank);
    EXPECT_EQ(share.queries, share.keys);
    EXPECT_EQ(share.queries.size(), rank < 2 ? 2 : 1);
  }
}

TEST(Heads, PictureOfTheDocs) {
  const HeadSharding sharding = shard_heads(RankGrid({{"tp", 4}}), "tp", 12, 6);
  const Layout queries(sharding.grid, {sharding.queries});
  const Layout keys(sharding.grid, {sharding.keys_values});
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(queries.held(rank, 0), ElementsAre(Range{3 * rank, 3 * rank + 3}));
    EXPECT_THAT(keys.held(rank, 0), ElementsAre(rank < 2 ? Range{0, 3} : Range{3, 6}));
  }
  EXPECT_EQ(describe(queries), "dim 0 over tp.kv, tp.query");
  EXPECT_EQ(describe(keys), "dim 0 over tp.kv");
  const int sharing = sharding.grid.axis("tp.query");
  EXPECT_THAT(keys.reduction_axes({sharing}), ElementsAre(sharing));
}

TEST(Heads, ChannelsAreCutInWholeHeads) {
  const HeadSharding sharding = shard_heads(RankGrid({{"tp", 3}}), "tp", 4, 2, 16);
  const Layout queries(sharding.grid, {sharding.queries});
  EXPECT_THAT(queries.held(0, 0), ElementsAre(Range{0, 32}));
  EXPECT_THAT(queries.held(2, 0), ElementsAre(Range{48, 64}));
}

}  // namespace
}  // namespace colossal
