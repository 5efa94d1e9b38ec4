// What every backend must do, to the bit: one suite for all backends. All are compared with the
// same serial results, so they also agree with each other.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "colossal/comm/group.h"
#include "colossal/comm/law.h"
#include "tests/comm/settings.h"

namespace colossal::comm {
namespace {

constexpr std::array kTypes{at::kFloat, at::kDouble, at::kBFloat16, at::kLong};
class Contract : public testing::TestWithParam<Setting> {
 protected:
  int n() const { return GetParam().size; }
  // In fp32, each rank's part has several buffers, the last of which is not full.
  int64_t large() const { return n() * 300'000 + 7; }
  void run(const Body& body) const { comm::run(GetParam(), body); }

  // Expects that since the last time, calls with this law were booked, and as many bytes on the
  // wire.
  void expect_booked(const Group& group, Reason reason, int64_t bytes, int64_t calls = 1) const {
    const auto entries = group.ledger().entries();
    const auto found = entries.find({"dp", reason});
    if (group.size() == 1) {
      EXPECT_EQ(found, entries.end());
    } else {
      ASSERT_NE(found, entries.end());
      EXPECT_EQ(found->second, (Traffic{calls, bytes, bytes}));
    }
    group.ledger().reset();
  }
  // Likewise. But over several hosts, only the wire bytes of all ranks together equal the law, plus
  // `more`.
  void expect_booked_together(const Group& group, Reason reason, int64_t bytes, int64_t more = 0,
                              int64_t calls = 1) const {
    if (hosts() == 1) return expect_booked(group, reason, bytes, calls);
    const Traffic booked = group.ledger().entries().at({"dp", reason});
    EXPECT_EQ(booked.calls, calls);
    EXPECT_EQ(booked.law_bytes, bytes);
    const at::Tensor beyond = on(group, at::full({1}, booked.wire_bytes - bytes, at::kLong));
    all_reduce(beyond, group, Reason::rendezvous);
    EXPECT_EQ(beyond.item<int64_t>(), more);
    group.ledger().reset();
  }
  int hosts() const { return GetParam().hosts().size(); }
  // Between hosts, sums of bf16 travel in fp32.
  int64_t widened(int64_t numel, at::ScalarType type) const {
    return type == at::kBFloat16 ? (hosts() - 1) * numel * 2 : 0;
  }

  // Parts: equal, even, none, uneven with empty ones, everything at one rank.
  std::vector<std::vector<int64_t>> count_cases() const {
    std::vector<std::vector<int64_t>> cases{std::vector<int64_t>(n(), 5), even_counts(1001, n()),
                                            std::vector<int64_t>(n(), 0)};
    std::vector<int64_t> uneven, one(n(), 0);
    for (int rank = 0; rank < n(); ++rank) uneven.push_back((rank * 37 + 3) % 5 * 11);
    one[n() - 1] = 17;
    cases.push_back(uneven);
    cases.push_back(one);
    return cases;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Contract, testing::ValuesIn(all_settings()),
                         testing::PrintToStringParamName());

auto settings_where(bool (*wanted)(const Setting&)) {
  std::vector<Setting> settings = all_settings();
  std::erase_if(settings, [&](const Setting& setting) { return !wanted(setting); });
  return testing::ValuesIn(settings);
}

// Subsets of the settings: several ranks, three, three or four, or more than one group in a world.
class ContractOfSeveral : public Contract {};
INSTANTIATE_TEST_SUITE_P(Backends, ContractOfSeveral,
                         settings_where([](const Setting& setting) { return setting.size > 1; }),
                         testing::PrintToStringParamName());
class ContractOfThree : public Contract {};
INSTANTIATE_TEST_SUITE_P(Backends, ContractOfThree,
                         settings_where([](const Setting& setting) { return setting.size == 3; }),
                         testing::PrintToStringParamName());
class ContractOfThreeOrFour : public Contract {};
INSTANTIATE_TEST_SUITE_P(Backends, ContractOfThreeOrFour,
                         settings_where([](const Setting& setting) {
                           return setting.size == 3 || setting.size == 4;
                         }),
                         testing::PrintToStringParamName());
class ContractOfThreeOrMore : public Contract {};
INSTANTIATE_TEST_SUITE_P(Backends, ContractOfThreeOrMore,
                         settings_where([](const Setting& setting) { return setting.size > 2; }),
                         testing::PrintToStringParamName());
class ContractOfGroups : public Contract {};
INSTANTIATE_TEST_SUITE_P(Backends, ContractOfGroups, settings_where([](const Setting& setting) {
                           return setting.backend != "messages";  // its test world has one group
                         }),
                         testing::PrintToStringParamName());

TEST_P(Contract, AllReduceSumsInRankOrder) {
  run([&](World&, const Group& group) {
    for (at::ScalarType type : kTypes) {
      for (int64_t numel : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{1024}, large()}) {
        if (numel == large() && type != at::kFloat && type != at::kBFloat16) continue;
        const at::Tensor tensor = on(group, values(group.rank(), numel, type));
        all_reduce(tensor, group, Reason::gradient);
        EXPECT_TRUE(same(tensor, summed(GetParam(), numel, type, type))) << type << " " << numel;
        expect_booked_together(group, Reason::gradient,
                               law::all_reduce(numel, n(), group.rank(), tensor.element_size()),
                               widened(numel, type));
      }
    }
  });
}

TEST_P(Contract, ReduceScatterGivesEachRankItsPart) {
  run([&](World&, const Group& group) {
    for (at::ScalarType type : kTypes) {
      for (const auto& counts : count_cases()) {
        const at::Tensor full = on(group, values(group.rank(), total(counts), type));
        const at::Tensor part = on(group, at::empty({counts[group.rank()]}, type));
        reduce_scatter(full, part, counts, group, Reason::gradient);
        const int64_t begin = offsets_of(counts)[group.rank()];
        const at::Tensor expected =
            summed(GetParam(), total(counts), type, type).narrow(0, begin, counts[group.rank()]);
        EXPECT_TRUE(same(part, expected)) << type << " " << total(counts);
        expect_booked_together(group, Reason::gradient,
                               law::reduce_scatter(counts, group.rank(), full.element_size()),
                               widened(total(counts), type));
      }
    }
  });
}

TEST_P(Contract, ReduceScatterMayWriteIntoTheFullTensor) {
  run([&](World&, const Group& group) {
    const std::vector<int64_t> counts = even_counts(large(), n());
    const int64_t begin = offsets_of(counts)[group.rank()];
    const at::Tensor full = on(group, values(group.rank(), large(), at::kFloat));
    const at::Tensor part = full.narrow(0, begin, counts[group.rank()]);
    reduce_scatter(full, part, counts, group, Reason::gradient);
    const at::Tensor sum = summed(GetParam(), large(), at::kFloat, at::kFloat);
    EXPECT_TRUE(same(part, sum.narrow(0, begin, counts[group.rank()])));
    // The rest of the input must not change.
    const at::Tensor before = values(group.rank(), large(), at::kFloat);
    EXPECT_TRUE(same(full.narrow(0, 0, begin), before.narrow(0, 0, begin)));
  });
}

TEST_P(Contract, ReduceScatterOfBfloat16GivesUnroundedSumsInFloat32) {
  run([&](World&, const Group& group) {
    const std::vector<int64_t> counts = even_counts(large(), n());
    const at::Tensor full = on(group, values(group.rank(), large(), at::kBFloat16));
    const at::Tensor part = on(group, at::empty({counts[group.rank()]}, at::kFloat));
    reduce_scatter(full, part, counts, group, Reason::gradient);
    const at::Tensor sum = summed(GetParam(), large(), at::kBFloat16, at::kFloat);
    EXPECT_TRUE(same(part, sum.narrow(0, offsets_of(counts)[group.rank()], counts[group.rank()])));
    expect_booked_together(group, Reason::gradient, law::reduce_scatter(counts, group.rank(), 2),
                           widened(large(), at::kBFloat16));
  });
}

TEST_P(Contract, AllGatherJoinsPartsInRankOrder) {
  run([&](World&, const Group& group) {
    for (at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong, at::kByte}) {
      auto cases = count_cases();
      if (type == at::kFloat) cases.push_back(even_counts(large(), n()));
      for (const auto& counts : cases) {
        const std::vector<int64_t> offsets = offsets_of(counts);
        const at::Tensor expected = values(99, total(counts), at::kLong).to(type);
        const at::Tensor full = on(group, at::zeros({total(counts)}, type));
        const int64_t begin = offsets[group.rank()];
        const int64_t count = counts[group.rank()];
        full.narrow(0, begin, count).copy_(expected.narrow(0, begin, count));
        all_gather(full, counts, group, Reason::parameter);
        if (n() > 1) {
          EXPECT_TRUE(same(full, expected)) << type << " " << total(counts);
        }
        expect_booked_together(group, Reason::parameter,
                               law::all_gather(counts, group.rank(), full.element_size()));
      }
    }
  });
}

TEST_P(Contract, AllToAllTransposes) {
  const auto count = [](int from, int to) -> int64_t { return (from * 3 + to * 5) % 7 * 1000; };
  run([&](World&, const Group& group) {
    for (at::ScalarType type : kTypes) {
      std::vector<int64_t> send_counts, receive_counts;
      std::vector<at::Tensor> sent, expected;
      for (int peer = 0; peer < n(); ++peer) {
        send_counts.push_back(count(group.rank(), peer));
        receive_counts.push_back(count(peer, group.rank()));
        sent.push_back(on(group, values(group.rank(), send_counts.back(), type, peer)));
        expected.push_back(values(peer, receive_counts.back(), type, group.rank()));
      }
      const at::Tensor received = on(group, at::empty({total(receive_counts)}, type));
      all_to_all(at::cat(sent), send_counts, received, receive_counts, group, Reason::expert);
      EXPECT_TRUE(same(received, at::cat(expected))) << type;
      const int64_t bytes = law::all_to_all(send_counts, group.rank(), received.element_size());
      expect_booked(group, Reason::expert, bytes);

      received.zero_();
      // The counts may be destroyed before the call ends.
      Work work;
      {
        const std::vector<int64_t> to = send_counts, from = receive_counts;
        work = all_to_all_async(at::cat(sent), to, received, from, group, Reason::expert);
      }
      work.wait();
      EXPECT_TRUE(same(received, at::cat(expected))) << type;
      expect_booked(group, Reason::expert, bytes);
    }
  });
}

TEST_P(Contract, RotateHandsOnToTheNextRank) {
  const auto count = [](int rank) -> int64_t { return rank == 1 ? 0 : rank * 100'000 + 7; };
  run([&](World&, const Group& group) {
    const int previous = (group.rank() + n() - 1) % n();
    for (at::ScalarType type : kTypes) {
      const at::Tensor sent = on(group, values(group.rank(), count(group.rank()), type));
      const at::Tensor received = on(group, at::empty({count(previous)}, type));
      rotate_async(sent, received, group, Reason::sequence).wait();
      EXPECT_TRUE(same(received, values(previous, count(previous), type))) << type;
      expect_booked(group, Reason::sequence, sent.numel() * sent.element_size());
    }
  });
}

// A ring that computes while it sends: the next rotation starts before the last one is waited for.
TEST_P(Contract, RotationsFollowEachOther) {
  run([&](World&, const Group& group) {
    std::vector<at::Tensor> blocks{on(group, values(group.rank(), 1000, at::kFloat))};
    std::vector<Work> hops;
    for (int hop = 0; hop < n(); ++hop) {
      blocks.push_back(on(group, at::empty({1000})));
      hops.push_back(rotate_async(blocks[hop], blocks[hop + 1], group, Reason::sequence));
    }
    hops.back().wait();
    EXPECT_TRUE(same(blocks.back(), blocks.front()));
    EXPECT_TRUE(hops.front().done());
  });
}

TEST_P(Contract, BroadcastFromAnyRoot) {
  run([&](World&, const Group& group) {
    for (int root = 0; root < n(); ++root) {
      for (int64_t numel : {int64_t{0}, int64_t{3}, large()}) {
        if (numel == large() && root + 1 < n()) continue;
        const at::Tensor tensor = on(group, values(group.rank(), numel, at::kFloat));
        broadcast(tensor, root, group, Reason::parameter);
        EXPECT_TRUE(same(tensor, values(root, numel, at::kFloat))) << root << " " << numel;
        expect_booked_together(group, Reason::parameter,
                               law::broadcast(numel, n(), group.rank(), root, 4));
      }
    }
  });
}

// The root of a broadcast may be done before the other ranks, and start its next calls.
TEST_P(Contract, RanksMayBeCallsAheadOfABroadcast) {
  run([&](World&, const Group& group) {
    for (int round = 0; round < 20; ++round) {
      const at::Tensor first = on(group, at::full({24 << 10}, group.rank(), at::kFloat));
      const at::Tensor second = first.clone();
      const at::Tensor sum = on(group, at::full({300}, group.rank(), at::kDouble));
      for (Work work : {broadcast_async(first, 0, group, Reason::tensor),
                        broadcast_async(second, n() - 1, group, Reason::tensor),
                        all_reduce_async(sum, group, Reason::tensor)}) {
        work.wait();
      }
      EXPECT_TRUE(first.eq(0).all().item<bool>());
      EXPECT_TRUE(second.eq(n() - 1).all().item<bool>());
      EXPECT_TRUE(sum.eq(n() * (n() - 1) / 2).all().item<bool>());
    }
  });
}

TEST_P(ContractOfSeveral, SendsArriveInOrder) {
  run([&](World&, const Group& group) {
    const auto message = [](int i) { return values(i, i == 1 ? 300'000 : 7, at::kFloat); };
    const int last = n() - 1;
    for (int i = 0; i < 3; ++i) {
      if (group.rank() == 0) {
        send(on(group, message(i)), last, group, Reason::stage);
        expect_booked(group, Reason::stage, message(i).numel() * 4);
      } else if (group.rank() == last) {
        const at::Tensor received = on(group, at::empty(message(i).sizes()));
        receive(received, 0, group, Reason::stage);
        EXPECT_TRUE(same(received, message(i)));
        EXPECT_TRUE(group.ledger().entries().empty());
      }
    }
    barrier(group);
  });
}

TEST_P(Contract, GatherBytes) {
  run([&](World&, const Group& group) {
    const auto text = [](int rank) {
      return rank == 1 ? "" : std::string(rank * 3 + 1, 'a' + rank);
    };
    const auto gathered = gather_bytes(text(group.rank()), group, Reason::control);
    ASSERT_EQ(std::ssize(gathered), n());
    for (int rank = 0; rank < n(); ++rank) EXPECT_EQ(gathered[rank], text(rank));
    const int64_t bytes = (n() - 1) * (8 + std::ssize(text(group.rank())));
    expect_booked_together(group, Reason::control, bytes, 0, /*calls=*/2);
  });
}

TEST_P(Contract, ManyCallsInFlightAndWaitsInAnyOrder) {
  run([&](World&, const Group& group) {
    constexpr int kCalls = 24;
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < kCalls; ++i) {
      tensors.push_back(on(group, values(group.rank(), 100 * i + 1, at::kFloat, i)));
      if (i % 3 == 2) {
        all_reduce(tensors[i], group, Reason::gradient);  // runs after the calls before it
        works.emplace_back();
      } else {
        works.push_back(all_reduce_async(tensors[i], group, Reason::gradient));
      }
    }
    for (int i = kCalls - 1; i >= 0; --i) {
      works[i].wait();
      EXPECT_TRUE(same(tensors[i], summed(GetParam(), 100 * i + 1, at::kFloat, at::kFloat, i)));
      EXPECT_TRUE(works[i].done());
    }
  });
}

TEST_P(Contract, AsynchronousReduceScatterThenAllGather) {
  run([&](World&, const Group& group) {
    const std::vector<int64_t> counts = even_counts(1003, n());
    const at::Tensor full = on(group, values(group.rank(), 1003, at::kDouble));
    const at::Tensor part = full.narrow(0, offsets_of(counts)[group.rank()], counts[group.rank()]);
    Work reduced = reduce_scatter_async(full, part, counts, group, Reason::gradient);
    Work gathered = all_gather_async(full, counts, group, Reason::parameter);
    gathered.wait();
    EXPECT_TRUE(same(full, summed(GetParam(), 1003, at::kDouble, at::kDouble)));
    EXPECT_TRUE(reduced.done());
  });
}

TEST_P(ContractOfGroups, GroupsDoNotDisturbEachOther) {
  run([&](World& world, const Group& dp) {
    const Group tp = world.group("tp", dp.ranks());
    const at::Tensor a = on(dp, values(dp.rank(), 5000, at::kFloat, 1));
    const at::Tensor b = on(dp, values(dp.rank(), 5000, at::kFloat, 2));
    // Ranks issue the calls in different orders: only calls of one group must be in the same order.
    Work first, second;
    if (dp.rank() % 2 == 0) {
      first = all_reduce_async(a, dp, Reason::gradient);
      second = all_reduce_async(b, tp, Reason::tensor);
    } else {
      second = all_reduce_async(b, tp, Reason::tensor);
      first = all_reduce_async(a, dp, Reason::gradient);
    }
    first.wait();
    second.wait();
    EXPECT_TRUE(same(a, summed(GetParam(), 5000, at::kFloat, at::kFloat, 1)));
    EXPECT_TRUE(same(b, summed(GetParam(), 5000, at::kFloat, at::kFloat, 2)));
    if (n() > 1) {
      EXPECT_EQ(world.ledger().entries().size(), 2);
    }
  });
}

TEST_P(ContractOfThreeOrMore, SubgroupsOfAMesh) {
  run([&](World& world, const Group& all) {
    // Even and odd ranks, in reverse order, so that group ranks are not global ranks.
    std::vector<int> ranks;
    for (int rank = n() - 1; rank >= 0; --rank) {
      if (rank % 2 == all.rank() % 2) ranks.push_back(rank);
    }
    const Group half = world.group("tp", ranks);
    EXPECT_EQ(half.ranks()[half.rank()], world.rank());
    const at::Tensor tensor = on(half, at::full({3}, world.rank(), at::kLong));
    all_reduce(tensor, half, Reason::tensor);
    EXPECT_EQ(tensor[2].item<int64_t>(), std::accumulate(ranks.begin(), ranks.end(), 0));
    if (half.size() == 1) {
      EXPECT_TRUE(world.ledger().entries().empty());
    }
    barrier(all);  // rank 0 serves the store, through which other ranks still make their groups
  });
}

TEST_P(Contract, RunsGiveTheSameBits) {
  std::vector<at::Tensor> runs;
  for (int i = 0; i < 2; ++i) {
    run([&](World&, const Group& group) {
      const at::Tensor tensor = on(group, values(group.rank(), 100'003, at::kFloat));
      all_reduce(tensor, group, Reason::gradient);
      if (group.rank() == 0) runs.push_back(tensor);
    });
  }
  EXPECT_TRUE(same(runs[0], runs[1]));
}

// In fp32, 1e8 + 1 = 1e8. So the result shows in which order the terms were added.
float order_sensitive_sum(World& world, const Group& group) {
  const float terms[] = {1e8f, 1, -1e8f, 1};
  const at::Tensor tensor = on(group, at::full({5}, terms[world.rank()]));
  all_reduce(tensor, group, Reason::gradient);
  EXPECT_TRUE((tensor == tensor[0]).all().item<bool>());
  return tensor[4].item<float>();
}

TEST_P(ContractOfThreeOrFour, TheOrderOfASumIsThatOfTheRanks) {
  float expected = n() == 3 ? (1e8f + 1) - 1e8f : ((1e8f + 1) - 1e8f) + 1;
  if (GetParam().host_letters == "abab") expected = (1e8f - 1e8f) + (1.f + 1);
  run([&](World& world, const Group& group) {
    EXPECT_EQ(order_sensitive_sum(world, group), expected);
  });
}

// Shows that the test above can fail: a group with another order gives another sum.
TEST_P(ContractOfThree, AnotherOrderWouldBeSeen) {
  run([&](World& world, const Group&) {
    EXPECT_EQ(order_sensitive_sum(world, world.group("tp", {0, 2, 1})), 1);
  });
}

TEST_P(Contract, AGroupOfOneGivesBackItsInput) {
  run([&](World& world, const Group&) {
    const Group alone = world.group("tp", {world.rank()});
    const at::Tensor full = values(0, 10, at::kBFloat16);
    const at::Tensor part = at::empty({10}, at::kFloat);
    const std::vector<int64_t> counts{10};
    reduce_scatter(full, part, counts, alone, Reason::gradient);
    EXPECT_TRUE(same(part, full.to(at::kFloat)));
    const at::Tensor received = at::empty({10}, at::kBFloat16);
    all_to_all(full, counts, received, counts, alone, Reason::expert);
    EXPECT_TRUE(same(received, full));
    barrier(alone);
    EXPECT_TRUE(world.ledger().entries().empty());
  });
}

TEST(DefaultGroup, IsAloneAndHasNoAxis) {
  const Group group;
  EXPECT_EQ(group.size(), 1);
  EXPECT_EQ(group.rank(), 0);
  EXPECT_EQ(group.axis(), "");
  const at::Tensor tensor = values(0, 4, at::kFloat);
  all_reduce(tensor, group, Reason::gradient);
  EXPECT_TRUE(same(tensor, values(0, 4, at::kFloat)));
  EXPECT_TRUE(group.ledger().entries().empty());
}

}  // namespace
}  // namespace colossal::comm
