// Tensors that all ranks can read give the same bits as plain ones, and book the same bytes. If
// ranks share no memory, they are plain tensors.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "colossal/comm/group.h"
#include "colossal/comm/law.h"
#include "tests/comm/settings.h"

namespace colossal::comm::shared_empty_test {

constexpr std::array kTypes{at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong};

// Returns `values` in shared memory, at a different offset on each rank.
at::Tensor share(const at::Tensor& values, const Group& group) {
  constexpr int64_t kGap = 5;
  const at::Tensor all =
      shared_empty(values.numel() + kGap * group.size(), values.scalar_type(), group);
  return all.narrow(0, kGap * group.rank(), values.numel()).copy_(values);
}

class SharedEmpty : public testing::TestWithParam<Setting> {
 protected:
  int n() const { return GetParam().size; }
  // Large enough to be read without copies, and in several pieces.
  int64_t large() const { return n() * 140'000 + 7; }
  void run(const Body& body) const { comm::run(GetParam(), body); }

  // Parts: even, uneven with an empty one, everything at the last rank, few elements, none.
  std::vector<std::vector<int64_t>> count_cases() const {
    std::vector<int64_t> uneven, one(n(), 0);
    for (int rank = 0; rank < n(); ++rank)
      uneven.push_back(rank == 1 ? 0 : 90'000 * rank + 140'001);
    one[n() - 1] = 150'001;
    return {even_counts(large(), n()), uneven, one, std::vector<int64_t>(n(), 3),
            std::vector<int64_t>(n(), 0)};
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, SharedEmpty,
                         testing::ValuesIn(std::vector<Setting>{
                             {"local", 1}, {"local", 2}, {"gloo", 2}, {"shm", 2}, {"shm", 3}}),
                         testing::PrintToStringParamName());

// Expects that `call` leaves the same values in `shared` as in `plain`, and books the same.
template <typename Function>
void expect_same(const at::Tensor& plain, const at::Tensor& shared, const Group& group,
                 const Function& call) {
  group.ledger().reset();
  const at::Tensor expected = call(plain);
  const auto booked = group.ledger().entries();
  group.ledger().reset();
  EXPECT_TRUE(at::equal(call(shared), expected)) << shared.scalar_type() << " " << shared.numel();
  EXPECT_EQ(group.ledger().entries(), booked);
}

TEST_P(SharedEmpty, IsATensorOfTheAskedTypeAndSize) {
  run([](World&, const Group& group) {
    for (const int64_t elements : {int64_t{0}, int64_t{1}, int64_t{5000}}) {
      const at::Tensor tensor = shared_empty(elements, at::kBFloat16, group);
      EXPECT_EQ(tensor.sizes(), at::IntArrayRef{elements});
      EXPECT_EQ(tensor.scalar_type(), at::kBFloat16);
      EXPECT_TRUE(tensor.is_contiguous());
      EXPECT_EQ(tensor.storage().nbytes(), 2 * elements);
      EXPECT_FALSE(tensor.fill_(1).ne(1).any().item<bool>());
    }
    EXPECT_TRUE(group.ledger().entries().empty());
    EXPECT_TRUE(shared_empty(7, at::TensorOptions(at::kFloat).device(at::kMeta), group).is_meta());
  });
}

TEST_P(SharedEmpty, AllReduce) {
  run([&](World&, const Group& group) {
    for (const at::ScalarType type : kTypes) {
      for (const int64_t numel : {int64_t{0}, int64_t{9}, large()}) {
        const at::Tensor plain = values(group.rank(), numel, type);
        expect_same(plain, share(plain, group), group, [&](const at::Tensor& tensor) {
          all_reduce(tensor, group, Reason::gradient);
          return tensor;
        });
      }
    }
  });
}

TEST_P(SharedEmpty, ReduceScatter) {
  run([&](World&, const Group& group) {
    for (const at::ScalarType type : kTypes) {
      for (const auto& counts : count_cases()) {
        if (type != at::kFloat && type != at::kBFloat16 && counts != count_cases()[1]) continue;
        const at::Tensor plain = values(group.rank(), total(counts), type);
        const bool widens = type == at::kBFloat16 || type == at::kHalf;
        for (const at::ScalarType out : {type, widens ? at::kFloat : type}) {
          expect_same(plain, share(plain, group), group, [&](const at::Tensor& full) {
            const at::Tensor part = at::empty({counts[group.rank()]}, out);
            reduce_scatter(full, part, counts, group, Reason::gradient);
            return part;
          });
        }
      }
    }
  });
}

TEST_P(SharedEmpty, ReduceScatterIntoTheTensor) {
  run([&](World&, const Group& group) {
    for (const auto& counts : count_cases()) {
      const at::Tensor plain = values(group.rank(), total(counts), at::kFloat);
      expect_same(plain, share(plain, group), group, [&](const at::Tensor& full) {
        const int64_t begin = offsets_of(counts)[group.rank()];
        const at::Tensor part = full.narrow(0, begin, counts[group.rank()]);
        reduce_scatter(full, part, counts, group, Reason::gradient);
        return full;  // the other parts must not change
      });
    }
  });
}

TEST_P(SharedEmpty, AllGather) {
  run([&](World&, const Group& group) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kByte}) {
      for (auto counts : count_cases()) {
        if (type != at::kFloat && counts != count_cases()[1]) continue;
        if (type == at::kByte) counts[0] += 300'000;
        const at::Tensor plain = values(group.rank(), total(counts), at::kLong).to(type);
        expect_same(plain, share(plain, group), group, [&](const at::Tensor& full) {
          all_gather(full, counts, group, Reason::parameter);
          return full;
        });
      }
    }
  });
}

// Ranks must agree on how they read: if some cannot share, or share different tensors, all copy.
TEST_P(SharedEmpty, RanksMayGiveOtherTensors) {
  run([&](World&, const Group& group) {
    const at::Tensor sum = summed(GetParam(), large(), at::kFloat, at::kFloat);
    const at::Tensor plain = values(group.rank(), large(), at::kFloat);
    const at::Tensor one = share(plain, group), other = share(plain, group);
    const std::vector<int64_t> counts = even_counts(large(), n());
    for (int odd = 0; odd < n(); ++odd) {
      const bool is_odd = group.rank() == odd;
      for (const at::Tensor& given :
           {is_odd ? plain : one, is_odd ? one : plain, is_odd ? other : one, one}) {
        given.copy_(values(group.rank(), large(), at::kFloat));
        const at::Tensor part = at::empty({counts[group.rank()]});
        reduce_scatter(given, part, counts, group, Reason::gradient);
        const int64_t begin = offsets_of(counts)[group.rank()];
        EXPECT_TRUE(at::equal(part, sum.narrow(0, begin, counts[group.rank()])));
        if (n() == 1) continue;
        all_reduce(given, group, Reason::gradient);
        EXPECT_TRUE(at::equal(given, sum));
        given.fill_(group.rank());
        all_gather(given, counts, group, Reason::parameter);
        for (int rank = 0; rank < n(); ++rank) {
          const at::Tensor of_rank = given.narrow(0, offsets_of(counts)[rank], counts[rank]);
          EXPECT_TRUE(of_rank.eq(rank).all().item<bool>());
        }
      }
    }
  });
}

// A rank that has nothing to read is not done before the others have read its memory.
TEST_P(SharedEmpty, MayBeWrittenToAfterACall) {
  run([&](World&, const Group& group) {
    std::vector<int64_t> counts(n(), 0);
    counts[n() - 1] = 1'000'000;
    const at::Tensor full = share(at::ones({1'000'000}), group);
    const at::Tensor part = at::empty({counts[group.rank()]});
    for (int round = 0; round < 5; ++round) {
      full.fill_(1);
      reduce_scatter(full, part, counts, group, Reason::gradient);
      full.fill_(7);
      EXPECT_TRUE(part.eq(n()).all().item<bool>());
      all_gather(full, counts, group, Reason::parameter);
      if (group.rank() == n() - 1) full.zero_();
      EXPECT_TRUE(full.eq(group.rank() == n() - 1 ? 0 : 7).all().item<bool>());
    }
  });
}

// A shared tensor of one group is a plain one to other groups. Calls of groups may overlap.
TEST_P(SharedEmpty, GroupsDoNotDisturbEachOther) {
  run([&](World& world, const Group& dp) {
    std::vector<int> reversed(dp.ranks().rbegin(), dp.ranks().rend());
    const Group tp = world.group("tp", reversed);
    const Group alone = world.group("ep", {world.rank()});
    const at::Tensor of_alone = shared_empty(3, at::kFloat, alone);
    const at::Tensor of_dp = share(values(dp.rank(), large(), at::kLong, 1), dp);
    const at::Tensor of_tp = share(values(dp.rank(), large(), at::kLong, 2), tp);
    const at::Tensor crossed = share(values(dp.rank(), large(), at::kLong, 3), tp);
    std::vector<Work> works{all_reduce_async(of_dp, dp, Reason::gradient),
                            all_reduce_async(of_tp, tp, Reason::tensor),
                            all_reduce_async(crossed, dp, Reason::gradient)};
    for (Work& work : works) work.wait();
    EXPECT_TRUE(at::equal(of_dp, summed(GetParam(), large(), at::kLong, at::kLong, 1)));
    EXPECT_TRUE(at::equal(of_tp, summed(GetParam(), large(), at::kLong, at::kLong, 2)));
    EXPECT_TRUE(at::equal(crossed, summed(GetParam(), large(), at::kLong, at::kLong, 3)));
  });
}

TEST_P(SharedEmpty, ManyCallsInFlight) {
  run([&](World&, const Group& group) {
    constexpr int kCalls = 8;
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < kCalls; ++i) {
      const at::Tensor plain = values(group.rank(), i % 4 == 3 ? 11 : large(), at::kLong, i % 4);
      tensors.push_back(i % 3 == 2 ? plain : share(plain, group));
      works.push_back(all_reduce_async(tensors[i], group, Reason::gradient));
    }
    for (int i = kCalls - 1; i >= 0; --i) {
      works[i].wait();
      const int64_t numel = tensors[i].numel();
      EXPECT_TRUE(at::equal(tensors[i], summed(GetParam(), numel, at::kLong, at::kLong, i % 4)));
    }
  });
}

// If a rank releases its tensor, the others keep theirs. Tensors may outlive the group and the
// world.
TEST_P(SharedEmpty, IsReleasedInAnyOrder) {
  std::vector<at::Tensor> kept(n());
  run([&](World&, const Group& group) {
    std::vector<at::Tensor> tensors;
    for (int i = 0; i < 3; ++i) tensors.push_back(share(at::full({large()}, i, at::kLong), group));
    tensors[group.rank() % 3] = at::full({large()}, group.rank() % 3, at::kLong);
    barrier(group);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(tensors[i].eq(i).all().item<bool>());
      all_reduce(tensors[i], group, Reason::gradient);
      EXPECT_TRUE(tensors[i].eq(i * n()).all().item<bool>());
    }
    kept[group.rank()] = share(at::full({large()}, group.rank(), at::kLong), group);
  });
  for (int rank = 0; rank < n(); ++rank) EXPECT_TRUE(kept[rank].eq(rank).all().item<bool>());
}

}  // namespace colossal::comm::shared_empty_test
