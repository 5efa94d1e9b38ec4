// Live redistributions against the serial tensor and its autograd. Values are whole numbers in
// fp64, so every sum is exact and results are compared bit for bit.
#include "colossal/layout/redistribute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "colossal/layout/heads.h"
#include "colossal/mesh/parallel_context.h"
#include "tests/layout/all_layouts.h"
#include "tests/layout/piece_of.h"
#include "tests/support/run_ranks.h"

namespace colossal {
namespace {

using comm::Reason;
using test::all_layouts;
using test::dims_of;
using test::grid_of;
using test::piece_of;

at::Tensor random_numbers(const std::vector<int64_t>& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int> number(-9, 9);
  at::Tensor values = at::empty(shape, at::kDouble);
  auto* data = values.mutable_data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i) data[i] = number(random);
  return values;
}

// Which of the ranks that add up to the same elements, and how many they are.
int term_of(const Layout& layout, int rank) {
  int term = 0;
  for (int axis : layout.partial_axes()) {
    term = term * layout.grid().size(axis) + layout.grid().coordinate(rank, axis);
  }
  return term;
}

int num_terms(const Layout& layout) {
  int terms = 1;
  for (int axis : layout.partial_axes()) terms *= layout.grid().size(axis);
  return terms;
}

// What `rank` has of `whole`; of a sum, random terms.
at::Tensor local_part(const at::Tensor& whole, const Layout& layout, int rank) {
  const int term = term_of(layout, rank);
  at::Tensor value = whole;
  if (term > 0) {
    value = random_numbers(layout.shape(), static_cast<uint64_t>(100 + term));
  } else {
    for (int other = 1; other < num_terms(layout); ++other) {
      value = value - random_numbers(layout.shape(), static_cast<uint64_t>(100 + other));
    }
  }
  return piece_of(value, layout, rank).clone();
}

// The tensor of which these are the parts of the ranks; ranks that should hold the same must.
at::Tensor whole_of(const std::vector<at::Tensor>& parts, const Layout& layout) {
  const std::vector<int64_t> shape = layout.shape();
  at::Tensor whole = at::zeros(shape, at::kDouble);
  std::map<std::vector<int>, at::Tensor> seen;  // by coordinates along sharded and partial axes
  const AxisSet replicated = layout.replicated_axes();
  for (int rank = 0; rank < layout.grid().num_ranks(); ++rank) {
    const int first = layout.grid().ranks_along(rank, replicated).front();
    if (first != rank) {
      EXPECT_TRUE(parts[rank].equal(parts[first])) << "ranks " << first << " and " << rank;
      continue;
    }
    at::Tensor index = at::arange(c10::multiply_integers(shape)).view(shape);
    index = piece_of(index, layout, rank).flatten();
    whole.view(-1).index_add_(0, index, parts[rank].flatten());
  }
  return whole;
}

using Bytes = std::map<std::string, comm::Traffic>;  // by axes

// Calls and bytes that a plan books at a rank; each travels once.
Bytes expected_bytes(const RedistributionPlan& plan, int rank) {
  using Kind = RedistributionStep::Kind;
  Bytes bytes;
  for (const RedistributionStep& step : plan.steps()) {
    if (step.kind == Kind::slice || step.kind == Kind::spread) continue;
    comm::Traffic& traffic = bytes[plan.from().grid().joined_name(step.axes)];
    ++traffic.calls;
    traffic.law_bytes += step.elements_sent[rank] * 8;
    traffic.wire_bytes += step.elements_sent[rank] * 8;
  }
  return bytes;
}

Bytes booked_bytes(comm::Ledger& ledger) {
  Bytes bytes;
  for (const auto& [key, traffic] : ledger.entries()) {
    EXPECT_EQ(key.reason, Reason::sequence);
    bytes[key.axis] = traffic;
  }
  ledger.reset();
  return bytes;
}

comm::Group all_ranks(comm::World& world) {
  std::vector<int> ranks(world.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return world.group("all", ranks);
}

// What becomes of one tensor, by rank.
struct Result {
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> gradients;
};

// Each rank's loss: its own weights on what it has. Where ranks have terms of a sum, a loss of the
// sum is one of each term if it is linear and the weights are those of the elements.
at::Tensor loss_of(const at::Tensor& y, const Layout& to, int rank) {
  const int first_term = to.grid().ranks_along(rank, to.partial_axes()).front();
  const at::Tensor weights =
      piece_of(random_numbers(to.shape(), static_cast<uint64_t>(200 + first_term)), to, rank);
  return (to.partial_axes().empty() ? weights * y * y : weights * y).sum();
}

void redistribute_at(comm::World& world, const GridGroups& groups,
                     const Redistribution& redistribution, const at::Tensor& whole,
                     Result& result) {
  const int rank = world.rank();
  const Layout& from = redistribution.forward.from();
  const Layout& to = redistribution.forward.to();
  world.ledger().reset();
  const at::Tensor x = local_part(whole, from, rank).requires_grad_();
  const at::Tensor y = redistribute(x, redistribution, groups, Reason::sequence);
  EXPECT_EQ(booked_bytes(world.ledger()), expected_bytes(redistribution.forward, rank));
  loss_of(y, to, rank).backward();
  EXPECT_EQ(booked_bytes(world.ledger()), expected_bytes(redistribution.backward, rank));
  EXPECT_TRUE(x.equal(local_part(whole, from, rank))) << "the input was written to";
  result.values[rank] = y.detach();
  result.gradients[rank] = x.grad();
}

void expect_serial(const Result& result, const Redistribution& redistribution,
                   const at::Tensor& whole) {
  const Layout& from = redistribution.forward.from();
  const Layout& to = redistribution.forward.to();
  EXPECT_TRUE(whole_of(result.values, to).equal(whole)) << describe(redistribution.forward);
  const at::Tensor serial = whole.clone().requires_grad_();
  for (int rank = 0; rank < to.grid().num_ranks(); ++rank) {
    if (term_of(to, rank) == 0) loss_of(piece_of(serial, to, rank), to, rank).backward();
  }
  EXPECT_TRUE(whole_of(result.gradients, from.conjugate()).equal(serial.grad()))
      << describe(redistribution.backward);
}

// Runs a body on ranks that are joined somehow.
using RunRanks = std::function<void(int ranks, const test::RankBody& body)>;

void through_memory(int ranks, const test::RankBody& body) {
  test::run_ranks(ranks, body);
}

// All of `redistributions`, over one grid, in one go.
void check(const std::vector<Redistribution>& redistributions,
           const RunRanks& run_ranks = through_memory) {
  const RankGrid& grid = redistributions.front().forward.from().grid();
  const int ranks = grid.num_ranks();
  std::vector<Result> results(redistributions.size(),
                              {std::vector<at::Tensor>(ranks), std::vector<at::Tensor>(ranks)});
  const auto whole = [&](size_t i) {
    return random_numbers(redistributions[i].forward.from().shape(), i);
  };
  run_ranks(ranks, [&](comm::World& world) {
    const GridGroups groups(world, grid, all_ranks(world));
    for (size_t i = 0; i < redistributions.size(); ++i) {
      redistribute_at(world, groups, redistributions[i], whole(i), results[i]);
    }
  });
  for (size_t i = 0; i < redistributions.size(); ++i) {
    TRACED_CASE(fmt::format("{} to {}", describe(redistributions[i].forward.from()),
                            describe(redistributions[i].forward.to())));
    expect_serial(results[i], redistributions[i], whole(i));
  }
}

// A share of all pairs of layouts.
std::vector<Redistribution> pairs_of(const std::vector<Layout>& layouts, double share) {
  std::mt19937 random(1);
  std::bernoulli_distribution taken(share);
  std::vector<Redistribution> pairs;
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      if (taken(random)) pairs.emplace_back(from, to);
    }
  }
  return pairs;
}

TEST(Redistribute, AllPairsOnSmallGrids) {
  for (const std::vector<int>& grid : std::vector<std::vector<int>>{{3}, {2, 2}}) {
    check(pairs_of(all_layouts(grid_of(grid), dims_of({7, 5})), 1));
  }
}

TEST(Redistribute, MoreRanksThanRows) {
  check(pairs_of(all_layouts(grid_of({2, 3}), dims_of({1, 4})), 0.2));
}

TEST(Redistribute, SomePairsOn2x2x2) {
  check(pairs_of(all_layouts(grid_of({2, 2, 2}), dims_of({9, 7})), 0.003));
}

TEST(SlowRedistribute, ManyPairsOn2x2x2) {
  check(pairs_of(all_layouts(grid_of({2, 2, 2}), dims_of({9, 7})), 0.1));
}

TEST(Redistribute, ZigzagAndUnits) {
  const std::vector<Layout::Dim> dims{{{{9, 2}}}, {{{4}, {2}}}};
  check(pairs_of(all_layouts(grid_of({2, 2}), dims, {0, 1}), 0.05));
}

TEST(Redistribute, OverRealTransports) {
  for (const char* backend : {"shm", "gloo"}) {
    TRACED_CASE(backend);
    check(
        pairs_of(all_layouts(grid_of({2, 2}), dims_of({3, 5})), 0.1),
        [&](int ranks, const test::RankBody& body) { test::run_ranks_over(backend, ranks, body); });
  }
}

// A block of a matrix over q x q ranks goes to its mirror rank, and rows in other orders of axes.
TEST(Redistribute, MirrorAndOrder) {
  const RankGrid grid = grid_of({3, 3});
  const Layout block(grid, {{{{8}}, {{0}}}, {{{7}}, {{1}}}});
  const Layout mirror(grid, {{{{8}}, {{1}}}, {{{7}}, {{0}}}});
  const Layout rows(grid, {{{{8}}, {{0}, {1}}}, {{{7}}}});
  const Layout other_rows(grid, {{{{8}}, {{1}, {0}}}, {{{7}}}});
  const Redistribution mirrored(block, mirror);
  EXPECT_EQ(describe(mirrored.forward), "all_to_all over a+b");
  EXPECT_EQ(mirrored.forward.elements_sent(1), 3 * 2);  // all of its block
  EXPECT_EQ(mirrored.forward.elements_sent(4), 0);      // on the diagonal
  check({mirrored, {rows, other_rows}, {rows, mirror}});
}

TEST(Redistribute, ThreeDimsAndSegments) {
  const RankGrid grid = grid_of({2, 2});
  const std::vector<Segment> qkv{{6, 2}, {4, 2}, {4, 2}};
  const Layout by_positions(grid, {{{{3}}}, {{{7}}, {{0, Cut::zigzag}}}, {qkv, {{1}}}});
  const Layout by_heads(grid, {{{{3}}}, {{{7}}}, {qkv, {{1}, {0}}}});
  const Layout by_samples(grid, {{{{3}}, {{1}}}, {{{7}}}, {{{14}}, {{0}}}});
  const Layout terms(grid, {{{{3}}}, {{{7}}, {{0}}}, {qkv}}, {1});
  check(pairs_of({by_positions, by_heads, by_samples, terms}, 1));
}

// Keys and values of a layer, and the gradient of their weight, over ranks that share heads.
TEST(Redistribute, HeadsOfKeysAndValues) {
  const HeadSharding heads = shard_heads(RankGrid({{"tp", 6}}), "tp", 8, 4, 3);
  const Layout weight(heads.grid, {heads.keys_values, {{{5}}}});
  const Layout whole(heads.grid, {{heads.keys_values.segments}, {{{5}}}});
  check({{weight, whole}, {whole, weight}, {weight.conjugate(), weight}});
}

// Over factors of an axis of a job's mesh.
TEST(Redistribute, WithinATensorParallelGroup) {
  test::run_ranks(8, [](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = 2, .tp = 4});
    const RankGrid grid({{"tp.row", 2}, {"tp.column", 2}});
    const GridGroups groups(world, grid, context.group(Axis::tp));
    EXPECT_EQ(groups.rank(), context.coordinate(Axis::tp));
    const Redistribution gather(Layout(grid, {{{{5}}, {{0}}}, {{{3}}, {{1}}}}),
                                Layout(grid, {{{{5}}}, {{{3}}}}));
    const auto replica = static_cast<uint64_t>(context.coordinate(Axis::dp));
    const at::Tensor whole = random_numbers({5, 3}, replica);
    const at::Tensor x = local_part(whole, gather.forward.from(), groups.rank());
    world.ledger().reset();
    EXPECT_TRUE(redistribute(x, gather, groups, Reason::sequence).equal(whole));
    EXPECT_EQ(booked_bytes(world.ledger()), expected_bytes(gather.forward, groups.rank()));
  });
}

TEST(Redistribute, DryRunsBookTheSame) {
  const RankGrid grid = grid_of({2, 2});
  const std::vector<Redistribution> pairs = pairs_of(all_layouts(grid, dims_of({7, 5})), 0.3);
  for (int rank = 0; rank < grid.num_ranks(); ++rank) {
    const auto world = comm::dry_world(rank, grid.num_ranks());
    const GridGroups groups(*world, grid, all_ranks(*world));
    for (const Redistribution& pair : pairs) {
      const auto expect_law_of = [&](const RedistributionPlan& plan) {
        Bytes expected = expected_bytes(plan, rank);
        for (auto& [axes, traffic] : expected) traffic.wire_bytes = 0;
        EXPECT_EQ(booked_bytes(world->ledger()), expected);
      };
      const auto meta = at::TensorOptions(at::kMeta).dtype(at::kDouble);
      const at::Tensor x = at::empty(pair.forward.from().local_shape(rank), meta).requires_grad_();
      const at::Tensor y = redistribute(x, pair, groups, Reason::sequence);
      expect_law_of(pair.forward);
      EXPECT_TRUE(y.is_meta());
      EXPECT_EQ(y.sizes(), pair.forward.to().local_shape(rank));
      y.sum().backward();
      expect_law_of(pair.backward);
      EXPECT_EQ(x.grad().sizes(), x.sizes());
    }
  }
}

}  // namespace
}  // namespace colossal
