// Groups over several hosts. Their results are tested in contract_test.cpp.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <latch>
#include <numeric>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/comm/hierarchical_backend.h"
#include "colossal/comm/local_messages.h"
#include "tests/comm/settings.h"
#include "tests/support/rank_processes.h"

namespace colossal::comm {
namespace hierarchical {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Setting setting(const std::string& host_letters) {
  return {.backend = "messages",
          .size = static_cast<int>(host_letters.size()),
          .host_letters = host_letters};
}

TEST(Hosts, AreOrderedByTheirFirstRanks) {
  const Hosts hosts = setting("baabc").hosts();
  EXPECT_THAT(hosts.members, ElementsAre(ElementsAre(0, 3), ElementsAre(1, 2), ElementsAre(4)));
  EXPECT_THAT(hosts.host, ElementsAre(0, 1, 1, 0, 2));
  EXPECT_THAT(hosts.place, ElementsAre(0, 0, 1, 1, 0));
}

TEST(Hosts, AgentsAreTheRanksWithTheSamePlace) {
  const Hosts hosts = setting("aaabb").hosts();
  const auto agents_on = [&](int host) {
    std::vector<int> agents;
    for (int rank = 0; rank < 5; ++rank) agents.push_back(hosts.agent(rank, host));
    return agents;
  };
  EXPECT_THAT(agents_on(0), ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(agents_on(1), ElementsAre(3, 4, 3, 3, 4));
}

using Collective = std::function<void(Backend& backend)>;

// Returns what each rank sends to other hosts: the hierarchical backend books only these bytes in
// its ledger.
std::vector<int64_t> bytes_between_hosts(const std::string& host_letters,
                                         const Collective& collective) {
  const Hosts hosts = setting(host_letters).hosts();
  const int n = static_cast<int>(host_letters.size());
  std::vector<int> all(n);
  std::iota(all.begin(), all.end(), 0);
  const auto everybody = std::make_shared<LocalBoard>(all);
  std::vector<std::shared_ptr<LocalBoard>> boards;
  for (const std::vector<int>& members : hosts.members) {
    boards.push_back(std::make_shared<LocalBoard>(members));
  }
  std::vector<int64_t> bytes(n);
  test::run_ranks(n, [&](World& thread) {
    const int rank = thread.rank(), host = hosts.host[rank];
    const auto message_backend = [&](std::vector<int> ranks, int own,
                                     std::shared_ptr<LocalBoard> board) {
      return std::make_shared<MessageBackend>(Membership{"dp", std::move(ranks), own},
                                              std::make_shared<Ledger>(), test::kRankTimeout,
                                              board);
    };
    const bool alone = hosts.members[host].size() == 1;
    const auto ledger = std::make_shared<Ledger>();
    HierarchicalBackend backend(
        {"dp", all, rank}, ledger, test::kRankTimeout, hosts,
        alone ? nullptr : message_backend(hosts.members[host], hosts.place[rank], boards[host]),
        message_backend(all, rank, everybody));
    collective(backend);
    bytes[rank] = ledger->by_axis()["dp"].wire_bytes;
  });
  return bytes;
}

Call call_of(Operation operation, const at::Tensor& tensor) {
  return {.operation = operation,
          .reason = Reason::gradient,
          .type = tensor.scalar_type(),
          .bytes = static_cast<int64_t>(tensor.nbytes())};
}

std::vector<int64_t> bytes_of_all_reduce(const std::string& host_letters, int64_t numel,
                                         at::ScalarType type) {
  return bytes_between_hosts(host_letters, [&](Backend& backend) {
    const at::Tensor tensor = at::ones({numel}, type);
    backend.all_reduce(call_of(Operation::all_reduce, tensor), tensor);
    EXPECT_EQ(tensor[-1].item<double>(), backend.size());
  });
}

// In an all-reduce of M bytes, each of h hosts sends 2(h-1)/h M bytes, as if it were one rank. Its
// ranks send equal shares.
TEST(Hierarchical, AnAllReduceCrossesBetweenHostsAsIfEachWereOneRank) {
  constexpr int64_t kNumel = 600'000;
  const int64_t two = 2 * kNumel * 4 / 2 / 2, three = 2 * 2 * kNumel * 4 / 3 / 2;
  EXPECT_THAT(bytes_of_all_reduce("aabb", kNumel, at::kFloat), testing::Each(two));
  EXPECT_THAT(bytes_of_all_reduce("abab", kNumel, at::kFloat), testing::Each(two));
  EXPECT_THAT(bytes_of_all_reduce("abcabc", kNumel, at::kFloat), testing::Each(three));
  // Each of the first three ranks has a third of one half; the last one sends all of the other
  // half.
  EXPECT_THAT(bytes_of_all_reduce("aaab", kNumel, at::kFloat),
              ElementsAre(kNumel * 2, kNumel, kNumel, kNumel * 4));
}

// Of the elements that travel, half are sums, in fp32; the others are results, in bf16.
TEST(Hierarchical, SumsOfBfloat16CrossInFloat32) {
  EXPECT_THAT(bytes_of_all_reduce("aabb", 600'000, at::kBFloat16),
              testing::Each(600'000 / 4 * (4 + 2)));
}

TEST(Hierarchical, EachByteOfAGatherOrBroadcastCrossesToEachHostOnce) {
  const std::vector<int64_t> counts{70'000, 0, 3, 500'000, 11};
  EXPECT_THAT(bytes_between_hosts("abcac",
                                  [&](Backend& backend) {
                                    const at::Tensor full = at::ones({total(counts)});
                                    backend.all_gather(call_of(Operation::all_gather, full), full,
                                                       counts);
                                  }),
              ElementsAre(2 * 4 * 70'000, 0, 2 * 4 * 3, 2 * 4 * 500'000, 2 * 4 * 11));
  // From rank 4, the second rank of c, to rank 3, the second of a, and on to rank 1, the only one
  // of b.
  EXPECT_THAT(bytes_between_hosts("abcac",
                                  [&](Backend& backend) {
                                    const at::Tensor tensor =
                                        at::full({600'000}, backend.rank(), at::kFloat);
                                    Call call = call_of(Operation::broadcast, tensor);
                                    call.root = 4;
                                    backend.broadcast(call, tensor, 4);
                                    EXPECT_TRUE((tensor == 4).all().item<bool>());
                                  }),
              ElementsAre(0, 0, 0, 600'000 * 4, 600'000 * 4));
}

TEST(Hierarchical, GroupsOfEachKindTakeTheShortestWay) {
  test::run_ranks_on({"a", "a", "b", "b"}, [](World& world) {
    const bool first_host = world.rank() < 2, even = world.rank() % 2 == 0;
    const Group all = world.group("dp", {0, 1, 2, 3});
    const Group again = world.group("dp", {3, 2, 1, 0});
    const Group host = world.group("tp", first_host ? std::vector{0, 1} : std::vector{2, 3});
    const Group across = world.group("pp", even ? std::vector{0, 2} : std::vector{1, 3});
    EXPECT_STREQ(all.backend(), "shm+gloo");
    EXPECT_STREQ(host.backend(), "shm");
    EXPECT_STREQ(across.backend(), "gloo");
    for (int round = 0; round < 3; ++round) {
      for (const Group* group : {&all, &host, &across, &again}) {
        const at::Tensor tensor = at::ones({50'001});
        all_reduce(tensor, *group, Reason::gradient);
        EXPECT_TRUE((tensor == group->size()).all().item<bool>());
      }
    }
    barrier(all);
  });
}

TEST(Hierarchical, ErrorsNameRanksOfTheGroupAndOfTheWorld) {
  test::run_ranks_on(
      {"a", "a", "b", "b"},
      [](World& world) {
        if (world.rank() == 1) return;
        const Group group = world.group("tp", {0, 3, 2});
        try {
          all_reduce(at::ones({world.rank() == 2 ? 4 : 5}), group, Reason::tensor);
          ADD_FAILURE() << "no CommError";
        } catch (const CommError& error) {
          EXPECT_THAT(error.what(),
                      HasSubstr("rank 2 called all_reduce of 16 B of Float (tensor)"));
          if (world.rank() == 0) return;
          EXPECT_THAT(error.what(),
                      HasSubstr("rank 1 (global 3) called all_reduce of 20 B of Float (tensor)"));
        }
      },
      std::chrono::seconds(20));
}

// Rank 0 waits for rank 2, which comes later and waits for rank 3.
TEST(Hierarchical, ATimeoutNamesWhoDidNotArriveAlsoToThoseWhoWaitForAnother) {
  std::latch others_failed(3);
  test::run_ranks_on(
      {"a", "a", "b", "b"},
      [&](World& world) {
        const Group group = world.group("dp", {0, 1, 2, 3});
        if (world.rank() == 3) return others_failed.wait();
        if (world.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(60));
        try {
          all_reduce(at::ones({4}), group, Reason::gradient);
          ADD_FAILURE() << "no CommError";
        } catch (const CommError& error) {
          EXPECT_THAT(error.what(), HasSubstr("timed out after 1s: rank 3 did not arrive"));
        }
        others_failed.count_down();
      },
      std::chrono::seconds(1));
}

// The other ranks may be on the killed rank's host or not, and may wait for it or not.
TEST(Hierarchical, AKilledProcessEndsTheRanksOfAllHosts) {
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"a", "a", "b", "b"}, {"a", "a", "a", "b"}}) {
    const auto processes = test::start_ranks(hosts, [](const Group& group) -> std::string {
      const at::Tensor tensor = at::zeros({400'000});
      while (true) all_reduce(tensor, group, Reason::gradient);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    kill(processes[3].id, SIGKILL);
    const auto start = std::chrono::steady_clock::now();
    for (int rank = 0; rank < 3; ++rank) {
      const std::string text = processes[rank].result();
      EXPECT_THAT(text,
                  StartsWith(fmt::format("rank {} of 4 on axis \"dp\": all_reduce of 1.53 MiB "
                                         "(gradient) lost rank",
                                         rank)));
      EXPECT_THAT(text, HasSubstr("lost rank 3: "));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    processes[3].result();
  }
}

}  // namespace
}  // namespace hierarchical
}  // namespace colossal::comm
