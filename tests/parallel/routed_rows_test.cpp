// Experts on several ranks: what the ranks compute together is what one rank computes, whoever has
// rows, and for whichever experts; and the bytes of the laws.
#include "colossal/parallel/expert/routed_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <numeric>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/ops/fallback/meta_kernels.h"
#include "colossal/parallel/collectives.h"
#include "tests/support/run_ranks.h"

namespace colossal::test::routed_rows {
namespace {

using comm::Reason;
using Entries = std::map<comm::Ledger::Key, comm::Traffic>;
using parallel::ExpertRanks;
using parallel::RoutedRows;
using parallel::RowExchange;

constexpr int64_t kHidden = 5, kInner = 7, kWidth = 8;  // bytes of a number

// Which rows a rank has, each for one expert.
struct Routing {
  std::string name;
  std::function<int64_t(int rank)> rows;
  std::function<int64_t(int64_t row, int64_t num_experts)> expert;  // of a row of all ranks
};

std::vector<Routing> routings() {
  const auto four = [](int) { return int64_t{4}; };
  const auto uneven = [](int rank) { return int64_t{rank * 5 % 7}; };
  const auto in_turn = [](int64_t row, int64_t experts) { return row % experts; };
  const auto mixed = [](int64_t row, int64_t experts) { return row * row % 11 % experts; };
  return {
      {"even", four, in_turn},
      {"uneven rows", uneven, mixed},
      {"one expert has all", uneven, [](int64_t, int64_t experts) { return experts - 1; }},
      {"the first rank's experts have none", four,
       [](int64_t row, int64_t experts) { return experts - 1 - row % 2; }},
      {"a rank without rows", [](int rank) { return int64_t{rank == 1 ? 0 : 3}; }, mixed},
      {"half of the ranks without rows", [](int rank) { return int64_t{rank < 2 ? 9 : 0}; }, mixed},
      {"one row", [](int rank) { return int64_t{rank == 0}; }, mixed},
      {"no rows", [](int) { return int64_t{0}; }, mixed},
  };
}

at::Tensor numbers(const std::vector<int64_t>& shape, double step) {
  return at::arange(c10::multiply_integers(shape), at::kDouble).mul(step).sin().view(shape);
}

// Experts of two products and a bias, one tensor each for all of them.
struct Experts {
  at::Tensor up, down, bias;

  static Experts of(int64_t num) {
    return {numbers({num, kInner, kHidden}, 0.7), numbers({num, kHidden, kInner}, 1.3),
            numbers({num, kHidden}, 0.9)};
  }
  // Those of a rank: some experts, and of each some of what is between the products.
  Experts part(Range experts, Range inner) const {
    const auto own = [](const at::Tensor& x) { return x.clone().requires_grad_(); };
    return {own(up.narrow(0, experts.begin, experts.size()).narrow(1, inner.begin, inner.size())),
            own(down.narrow(0, experts.begin, experts.size()).narrow(2, inner.begin, inner.size())),
            own(bias.narrow(0, experts.begin, experts.size()))};
  }
  std::vector<at::Tensor> all() const { return {up, down, bias}; }

  at::Tensor compute(const at::Tensor& rows, const std::vector<int64_t>& counts,
                     bool adds_bias) const {
    std::vector<at::Tensor> results;
    int64_t begin = 0;
    for (int64_t expert = 0; expert < std::ssize(counts); begin += counts[expert++]) {
      const at::Tensor x = rows.narrow(0, begin, counts[expert]);
      at::Tensor y = at::silu(x.mm(up[expert].t())).mm(down[expert].t());
      results.push_back(adds_bias ? y + bias[expert] : y);
    }
    return results.empty() ? rows : at::cat(results);
  }
};

struct Rows {
  at::Tensor x, upstream;       // sorted by expert; upstream: gradient of the results
  std::vector<int64_t> counts;  // by expert
  at::Tensor order;             // which rows of all ranks these are

  // Of ranks [begin, end).
  static Rows of(const Routing& routing, int64_t num_experts, int begin, int end) {
    int64_t first = 0;
    for (int rank = 0; rank < begin; ++rank) first += routing.rows(rank);
    int64_t last = first;
    for (int rank = begin; rank < end; ++rank) last += routing.rows(rank);
    std::vector<int64_t> order;
    Rows rows;
    for (int64_t expert = 0; expert < num_experts; ++expert) {
      const size_t before = order.size();
      for (int64_t row = first; row < last; ++row) {
        if (routing.expert(row, num_experts) == expert) order.push_back(row);
      }
      rows.counts.push_back(static_cast<int64_t>(order.size() - before));
    }
    rows.order = at::tensor(order, at::kLong);
    rows.x = numbers({1000, kHidden}, 0.37).index_select(0, rows.order).requires_grad_();
    rows.upstream = numbers({1000, kHidden}, 0.53).index_select(0, rows.order);
    return rows;
  }
};

struct Serial {
  at::Tensor y, x_gradient;  // by row of all ranks
  std::vector<at::Tensor> gradients;

  Serial(const Routing& routing, int64_t num_experts, int ranks) {
    const Rows rows = Rows::of(routing, num_experts, 0, ranks);
    const Experts experts = Experts::of(num_experts).part({0, num_experts}, {0, kInner});
    const at::Tensor results = experts.compute(rows.x, rows.counts, /*adds_bias=*/true);
    torch::autograd::backward({results}, {rows.upstream});
    y = at::zeros({1000, kHidden}, at::kDouble).index_copy(0, rows.order, results.detach());
    x_gradient = at::zeros({1000, kHidden}, at::kDouble).index_copy(0, rows.order, rows.x.grad());
    for (const at::Tensor& weight : experts.all()) gradients.push_back(weight.grad());
  }
};

void expect_close(const at::Tensor& a, const at::Tensor& b, const char* what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  EXPECT_LE((a - b).norm().item<double>(), 1e-12 * (1 + b.norm().item<double>())) << what;
}

// What the ledger must say after one pass forward and one backward.
void expect_law(const Entries& entries, const Rows& rows, const ExpertRanks& ranks,
                const std::vector<int64_t>& received, int64_t here_of_all_parts) {
  const int64_t num_experts = std::ssize(rows.counts), row = kHidden * kWidth;
  const Range mine = ranks.divide_experts(num_experts).range(ranks.experts.rank());
  const int64_t kept =
      std::accumulate(rows.counts.begin() + mine.begin, rows.counts.begin() + mine.end, int64_t{0});
  const int64_t here = std::accumulate(received.begin(), received.end(), int64_t{0});
  const int64_t sent = rows.x.size(0) - kept, of_others = here - kept;
  const auto booked = [&](const char* axis, Reason reason) {
    const auto found = entries.find({axis, reason});
    if (found == entries.end()) return comm::Traffic{};
    EXPECT_EQ(found->second.law_bytes, found->second.wire_bytes);
    return found->second;
  };
  if (ranks.experts.size() > 1) {
    const comm::Traffic tokens = booked("ep", Reason::expert);
    EXPECT_EQ(tokens.law_bytes, 8 * (num_experts - mine.size()) + 2 * (sent + of_others) * row);
    EXPECT_EQ(tokens.calls, 5);  // counts, and there and back in each direction, rows or not
  }
  if (ranks.parts.size() > 1) {
    const int64_t others = ranks.parts.size() - 1;
    EXPECT_EQ(booked("expert_tp", Reason::expert).law_bytes,
              8 * others * ranks.experts.size() * mine.size());
    EXPECT_EQ(booked("expert_tp", Reason::tensor).law_bytes,
              2 * (others * here + (here_of_all_parts - here)) * row);
  }
}

struct Layout {
  Strategy strategy;
  int64_t num_experts;
};

void expect_serial(const Layout& layout, const Routing& routing) {
  const Serial serial(routing, layout.num_experts, layout.strategy.world_size());
  run_ranks(layout.strategy.world_size(), [&](comm::World& world) {
    const ParallelContext context(world, layout.strategy);
    const ExpertRanks ranks{context.expert_group(), context.expert_parts_group()};
    const Range mine = ranks.divide_experts(layout.num_experts).range(ranks.experts.rank());
    const Range inner = Partition(kInner, ranks.parts.size()).range(ranks.parts.rank());
    const Experts experts = Experts::of(layout.num_experts).part(mine, inner);
    const Rows rows = Rows::of(routing, layout.num_experts, world.rank(), world.rank() + 1);
    world.ledger().reset();

    RoutedRows routed(rows.x, rows.counts, ranks);
    std::vector<int64_t> computed;
    const at::Tensor y =
        routed.through([&](const at::Tensor& x, const std::vector<int64_t>& counts) {
          computed = counts;
          return experts.compute(x, counts, /*adds_bias=*/ranks.parts.rank() == 0);
        });
    torch::autograd::backward({y}, {rows.upstream});

    expect_close(y.detach(), serial.y.index_select(0, rows.order), "results");
    expect_close(rows.x.grad(), serial.x_gradient.index_select(0, rows.order), "gradient of rows");
    const Entries booked = world.ledger().entries();

    // Rows that came here before the parts put theirs together.
    std::vector<int64_t> received;
    for (const auto& of_rank : parallel::exchange_counts(
             rows.counts, ranks.divide_experts(layout.num_experts), ranks.experts, at::kCPU)) {
      received.push_back(std::accumulate(of_rank.begin(), of_rank.end(), int64_t{0}));
    }
    // Each expert's gradient, over all ranks that hold it: they saw other rows.
    const comm::Group& same = context.same_experts_group();
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& weight : experts.all()) {
      ASSERT_TRUE(weight.grad().defined() || mine.empty() || ranks.parts.rank() > 0);
      at::Tensor sum = weight.grad().defined() ? weight.grad().clone() : at::zeros_like(weight);
      comm::all_reduce(sum.detach().view(-1), same, Reason::gradient);
      gradients.push_back(sum);
    }
    const auto part_of = [&](size_t index) {
      return serial.gradients[index].narrow(0, mine.begin, mine.size());
    };
    expect_close(gradients[0], part_of(0).narrow(1, inner.begin, inner.size()), "up");
    expect_close(gradients[1], part_of(1).narrow(2, inner.begin, inner.size()), "down");
    if (ranks.parts.rank() == 0) expect_close(gradients[2], part_of(2), "bias");

    expect_law(booked, rows, ranks, received,
               std::accumulate(computed.begin(), computed.end(), int64_t{0}));
  });
}

std::vector<Layout> layouts() {
  const auto of = [](int dp, int tp, int ep, int expert_tp, int64_t experts) {
    return Layout{{.dp = dp, .tp = tp, .ep = ep, .expert_tp = expert_tp}, experts};
  };
  return {of(1, 1, 1, 1, 6), of(4, 1, 1, 1, 6), of(2, 1, 2, 1, 6), of(4, 1, 2, 1, 5),
          of(4, 1, 4, 1, 6), of(4, 1, 4, 1, 3), of(4, 1, 2, 2, 6), of(4, 1, 1, 4, 2),
          of(2, 3, 3, 2, 7), of(2, 4, 4, 2, 6), of(4, 2, 2, 2, 6), of(8, 1, 8, 1, 12)};
}

TEST(RoutedRows, EqualsSerialWhoeverHasRows) {
  for (const Layout& layout : layouts()) {
    for (const Routing& routing : routings()) {
      const Strategy& strategy = layout.strategy;
      TRACED_CASE(fmt::format("dp {} tp {} ep {} expert_tp {} experts {}, {}", strategy.dp,
                              strategy.tp, strategy.ep, strategy.expert_tp, layout.num_experts,
                              routing.name));
      expect_serial(layout, routing);
    }
  }
}

// Ranks of tp that all have the same rows, and the same gradients of them: each sends its share to
// the experts. Had each sent all, experts would see every row tp times.
TEST(RoutedRows, RowsThatRanksHaveInCommonAreSentOnce) {
  constexpr int64_t kExperts = 5, kRowsOfEach = 7;
  const Routing routing{"common", [](int) { return kRowsOfEach; },
                        [](int64_t row, int64_t experts) { return row * row % 11 % experts; }};
  for (const auto& [dp, tp, ep] : {std::array{1, 2, 1}, {1, 3, 3}, {2, 2, 2}, {2, 2, 4}}) {
    TRACED_CASE(fmt::format("dp {} tp {} ep {}", dp, tp, ep));
    const Serial serial(routing, kExperts, dp);
    run_ranks(dp * tp, [&, dp = dp, tp = tp, ep = ep](comm::World& world) {
      const ParallelContext context(world, Strategy{.dp = dp, .tp = tp, .ep = ep});
      const ExpertRanks ranks{context.expert_group(), context.expert_parts_group()};
      const Range mine = ranks.divide_experts(kExperts).range(ranks.experts.rank());
      const Experts experts = Experts::of(kExperts).part(mine, {0, kInner});
      const int replica = context.coordinate(Axis::dp);
      const Rows rows = Rows::of(routing, kExperts, replica, replica + 1);
      const parallel::Shares shares = parallel::Shares::even(context.group(Axis::tp), kRowsOfEach);
      // Rows are sorted by expert; so is each share of them.
      std::vector<int64_t> counts;
      int64_t end = 0;
      for (const int64_t count : rows.counts) {
        const int64_t begin = end;
        end += count;
        counts.push_back(intersect(shares.here(), {begin, end}).size());
      }
      const at::Tensor y = parallel::collect_rows(
          RoutedRows(parallel::take_rows(rows.x, shares), counts, ranks)
              .through([&](const at::Tensor& x, const std::vector<int64_t>& n) {
                return experts.compute(x, n, /*adds_bias=*/true);
              }),
          shares);
      torch::autograd::backward({y}, {rows.upstream});
      expect_close(y.detach(), serial.y.index_select(0, rows.order), "results");
      expect_close(rows.x.grad(), serial.x_gradient.index_select(0, rows.order), "rows");
      for (size_t i = 0; i < 3; ++i) {
        const at::Tensor sum = experts.all()[i].grad().clone();
        comm::all_reduce(sum.view(-1), context.same_experts_group(), Reason::gradient);
        expect_close(sum, serial.gradients[i].narrow(0, mine.begin, mine.size()), "weights");
      }
      if (ep == 1) {  // whole on each rank: nothing but the shares of rows travels
        EXPECT_EQ(world.ledger().entries().count({"ep", Reason::expert}), 0);
      }
    });
  }
}

// Each expert has rows of every rank: another order of these would give other sums.
TEST(RoutedRows, TwoRunsGiveTheSameBits) {
  const Routing routing{"rows of all ranks for all experts", [](int) { return int64_t{60}; },
                        [](int64_t row, int64_t experts) { return row % experts; }};
  std::array<std::vector<at::Tensor>, 2> results;
  for (std::vector<at::Tensor>& of_run : results) {
    of_run.resize(4);
    run_ranks(4, [&](comm::World& world) {
      const ParallelContext context(world, Strategy{.dp = 4, .ep = 2, .expert_tp = 2});
      const ExpertRanks ranks{context.expert_group(), context.expert_parts_group()};
      const Experts experts =
          Experts::of(6).part(ranks.divide_experts(6).range(ranks.experts.rank()), {0, kInner});
      const Rows rows = Rows::of(routing, 6, world.rank(), world.rank() + 1);
      const at::Tensor y = RoutedRows(rows.x, rows.counts, ranks)
                               .through([&](const at::Tensor& x, const std::vector<int64_t>& n) {
                                 return experts.compute(x, n, true);
                               });
      torch::autograd::backward({y}, {rows.upstream});
      of_run[world.rank()] = at::cat({y.detach().view(-1), rows.x.grad().view(-1),
                                      experts.up.grad().view(-1), experts.down.grad().view(-1)});
    });
  }
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(at::equal(results[0][rank], results[1][rank])) << rank;
  }
}

// In a dry run every rank is taken to send as this one does: with even rows, the law of a real run.
TEST(RoutedRows, ADryRunBooksTheLawOfEvenRows) {
  ops::register_meta_kernels();
  const Strategy strategy{.dp = 8, .ep = 2, .expert_tp = 2};
  run_ranks(8, [&](comm::World& world) {
    const auto run_over = [&](comm::World& over, at::Device device) {
      const ParallelContext context(over, strategy, device);
      const ExpertRanks ranks{context.expert_group(), context.expert_parts_group()};
      const std::vector<int64_t> counts(4, 3);
      const auto options = at::TensorOptions(at::kFloat).device(device);
      const at::Tensor x = at::ones({12, kHidden}, options).requires_grad_();
      const at::Tensor weight = at::ones({kHidden, kHidden}, options).requires_grad_();
      const at::Tensor y = RoutedRows(x, counts, ranks)
                               .through([&](const at::Tensor& rows, const std::vector<int64_t>& n) {
                                 EXPECT_EQ(n, (std::vector<int64_t>{12, 12}));
                                 return rows.mm(weight);
                               });
      EXPECT_EQ(y.sizes(), x.sizes());
      torch::autograd::backward({y}, {at::ones_like(y)});
      return over.ledger().entries();
    };
    const auto real = run_over(world, at::kCPU);
    const auto dry_world = comm::dry_world(world.rank(), 8);
    const auto dry = run_over(*dry_world, at::kMeta);
    ASSERT_EQ(dry.size(), real.size());
    for (const auto& [key, traffic] : dry) {
      EXPECT_EQ(traffic.law_bytes, real.at(key).law_bytes) << key.axis;
      EXPECT_EQ(traffic.calls, real.at(key).calls) << key.axis;
    }
  });
}

// x itself; says when its backward pass runs.
struct Tells : torch::autograd::Function<Tells> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            std::atomic<bool>* runs) {
    context->saved_data["runs"] = reinterpret_cast<int64_t>(runs);
    return x.view_as(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    *reinterpret_cast<std::atomic<bool>*>(context->saved_data["runs"].toInt()) = true;
    return {gradients[0], {}};
  }
};

// Rank 1 enters the exchange, in either direction, only when rank 0 does other work in it.
TEST(RowExchange, OtherWorkRunsMeanwhileForwardAndBackward) {
  std::atomic<bool> works_forward = false, works_backward = false;
  run_ranks(
      2,
      [&](comm::World& world) {
        const auto wait_for = [](const std::atomic<bool>& flag) {
          const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
          while (!flag) {
            if (std::chrono::steady_clock::now() > deadline) throw CommError("no other work ran");
            std::this_thread::yield();
          }
        };
        const comm::Group group = world.group("ep", {0, 1});
        const bool first = world.rank() == 0;
        const at::Tensor x = at::full({2, 3}, world.rank() + 1.0, at::kDouble).requires_grad_();
        if (!first) wait_for(works_forward);
        RowExchange exchange(x, {.send = {1, 1}, .receive = {1, 1}}, group);
        at::Tensor other = x * 10;
        if (first) {
          other = Tells::apply(other, &works_backward);
          works_forward = true;
        }
        const at::Tensor received = exchange.wait();
        EXPECT_TRUE(at::equal(received.detach().select(1, 0), at::tensor({1.0, 2.0}, at::kDouble)));
        if (!first) wait_for(works_backward);
        torch::autograd::backward({(received * (world.rank() + 1)).sum() + other.sum()}, {});
        EXPECT_TRUE(at::equal(x.grad().select(1, 0), at::tensor({11.0, 12.0}, at::kDouble)));
      },
      std::chrono::seconds(10));
}

TEST(RowExchange, MovesEveryTypeBitByBit) {
  run_ranks(3, [](comm::World& world) {
    const comm::Group group = world.group("ep", {0, 1, 2});
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
      // Rank r sends r rows to rank 0, none to rank 1 and one to rank 2.
      const int64_t r = world.rank();
      const at::Tensor x = numbers({r + 1, 4}, 0.1 + static_cast<double>(r)).to(type);
      const std::vector<std::vector<int64_t>> receive{{0, 1, 2}, {0, 0, 0}, {1, 1, 1}};
      const at::Tensor y = RowExchange(x, {.send = {r, 0, 1}, .receive = receive[r]}, group).wait();
      EXPECT_EQ(y.scalar_type(), type);
      const at::Tensor back =
          RowExchange(y, {.send = receive[r], .receive = {r, 0, 1}}, group).wait();
      EXPECT_TRUE(at::equal(back, x)) << type;
    }
  });
}

}  // namespace
}  // namespace colossal::test::routed_rows
