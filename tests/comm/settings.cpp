#include "tests/comm/settings.h"

#include <ATen/ATen.h>

#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include "colossal/comm/group_impl.h"
#include "colossal/comm/hierarchical_backend.h"
#include "colossal/comm/local_messages.h"

namespace colossal::comm {
namespace {

using Boards = std::map<std::vector<int>, std::shared_ptr<LocalBoard>>;

// A world in which the same ranks can make one group at most.
class MessageWorld final : public World {
 public:
  MessageWorld(int rank, const Setting& setting, std::chrono::milliseconds timeout, Boards& boards,
               std::mutex& mutex)
      : rank_(rank), setting_(setting), timeout_(timeout), boards_(boards), mutex_(mutex) {}

  int rank() const override { return rank_; }
  int size() const override { return setting_.size; }
  const char* backend() const override { return "messages"; }

  Group group(const std::string& axis, const std::vector<int>& ranks) override {
    const Membership membership = membership_of(*this, axis, ranks);
    return make_group(backend(), ledger_, membership, [&]() -> std::shared_ptr<Backend> {
      Setting of_group{.backend = setting_.backend, .size = membership.size()};
      if (!setting_.host_letters.empty()) {
        for (int rank : ranks) of_group.host_letters += setting_.host_letters[rank];
      }
      const Hosts hosts = of_group.hosts();
      return hosts.size() == 1 ? message_backend(membership)
                               : hierarchical_over_messages(membership, hosts);
    });
  }

  void abort(const std::string& why) override {
    const std::lock_guard lock(mutex_);
    for (auto& [ranks, board] : boards_) {
      for (size_t i = 0; i < ranks.size(); ++i) {
        if (ranks[i] == rank_) board->lose(static_cast<int>(i), why);
      }
    }
  }

 private:
  std::shared_ptr<MessageBackend> message_backend(const Membership& membership) {
    const std::lock_guard lock(mutex_);
    auto& board = boards_[membership.ranks];
    if (!board) board = std::make_shared<LocalBoard>(membership.ranks);
    return std::make_shared<MessageBackend>(membership, ledger_, timeout_, board);
  }

  std::shared_ptr<Backend> hierarchical_over_messages(const Membership& membership,
                                                      const Hosts& hosts) {
    Membership here{.axis = membership.axis, .rank = hosts.place[membership.rank]};
    for (int member : hosts.members[hosts.host[membership.rank]]) {
      here.ranks.push_back(membership.ranks[member]);
    }
    return std::make_shared<HierarchicalBackend>(membership, ledger_, timeout_, hosts,
                                                 here.size() > 1 ? message_backend(here) : nullptr,
                                                 message_backend(membership));
  }

  int rank_;
  Setting setting_;
  std::chrono::milliseconds timeout_;
  Boards& boards_;
  std::mutex& mutex_;
};

void run_ranks_over_messages(const Setting& setting, const test::RankBody& body,
                             std::chrono::milliseconds timeout) {
  Boards boards;
  std::mutex mutex;
  test::run_ranks(setting.size, [&](World& thread) {
    MessageWorld world(thread.rank(), setting, timeout, boards, mutex);
    try {
      body(world);
    } catch (const std::exception& error) {
      world.abort(error.what());
      throw;
    }
  });
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const Setting& setting) {
  return stream << setting.backend << setting.size << setting.host_letters;
}

Hosts Setting::hosts() const {
  std::vector<std::string> identities(size);
  for (size_t rank = 0; rank < host_letters.size(); ++rank) identities[rank] = host_letters[rank];
  return Hosts(identities);
}

void run(const Setting& setting, const Body& body, std::chrono::milliseconds timeout) {
  const auto with_group = [&](World& world) {
    std::vector<int> all(world.size());
    std::iota(all.begin(), all.end(), 0);
    body(world, world.group("dp", all));
  };
  if (setting.backend == "shm" && !setting.host_letters.empty()) {
    std::vector<std::string> hosts;
    for (char letter : setting.host_letters) hosts.emplace_back(1, letter);
    test::run_ranks_on(hosts, with_group, timeout);
  } else if (setting.backend == "gloo" || setting.backend == "shm" || setting.backend == "nccl") {
    test::run_ranks_over(setting.backend, setting.size, with_group, timeout);
  } else if (setting.backend == "staged") {
    test::run_staged_ranks(setting.size, with_group, timeout);
  } else if (setting.backend == "messages") {
    run_ranks_over_messages(setting, with_group, timeout);
  } else {
    test::run_ranks(setting.size, with_group, timeout);
  }
}

at::Tensor on(const Group& group, const at::Tensor& tensor) {
  return tensor.to(group.device());
}

bool same(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(a.cpu(), b.cpu());
}

at::Tensor values(int rank, int64_t numel, at::ScalarType type, int salt) {
  const at::Tensor numbers = at::empty({numel}, at::kDouble);
  double* number = numbers.mutable_data_ptr<double>();
  const int64_t step = 2 * rank + 3 + 26 * salt;
  for (int64_t i = 0; i < numel; ++i) {
    number[i] = static_cast<double>((i * step + rank) % 1009 - 504) * 0.37 * (rank + 1);
  }
  return numbers.to(type);
}

namespace {

at::Tensor compute_sum(const Hosts& hosts, int64_t numel, at::ScalarType type,
                       at::ScalarType out_type, int salt) {
  const bool exact = type == at::kDouble || type == at::kLong;
  const at::ScalarType accumulator = exact ? type : at::kFloat;
  at::Tensor sum;
  for (const std::vector<int>& members : hosts.members) {
    at::Tensor of_host;
    for (int rank : members) {
      const at::Tensor term = values(rank, numel, type, salt).to(accumulator);
      of_host = of_host.defined() ? of_host + term : term;
    }
    sum = sum.defined() ? sum + of_host : of_host;
  }
  return sum.to(out_type);
}

}  // namespace

at::Tensor summed(const Setting& setting, int64_t numel, at::ScalarType type,
                  at::ScalarType out_type, int salt) {
  using Key = std::tuple<int, std::string, int64_t, at::ScalarType, at::ScalarType, int>;
  static std::mutex mutex;  // all ranks need the same sums
  static std::map<Key, at::Tensor> sums;
  const std::lock_guard lock(mutex);
  at::Tensor& sum = sums[{setting.size, setting.host_letters, numel, type, out_type, salt}];
  if (!sum.defined()) sum = compute_sum(setting.hosts(), numel, type, out_type, salt);
  return sum;
}

}  // namespace colossal::comm
