#include "tests/comm/settings.h"

#include <ATen/ATen.h>

#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include "colossal/comm/group_impl.h"
#include "colossal/comm/local_mail.h"

namespace colossal::comm {
namespace {

using Boards = std::map<std::vector<int>, std::shared_ptr<LocalBoard>>;

// One group of the same ranks, at most.
class MailWorld final : public World {
 public:
  MailWorld(int rank, int size, std::chrono::milliseconds timeout, Boards& boards,
            std::mutex& mutex)
      : rank_(rank), size_(size), timeout_(timeout), boards_(boards), mutex_(mutex) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return "mail"; }

  Group group(const std::string& axis, const std::vector<int>& ranks) override {
    const Membership membership = membership_of(*this, axis, ranks);
    const std::lock_guard lock(mutex_);
    auto& board = boards_[ranks];
    if (!board) board = std::make_shared<LocalBoard>(ranks);
    return make_group(backend(), ledger_, membership, [&] {
      return std::make_shared<MailBackend>(membership, ledger_, timeout_, board);
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
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  Boards& boards_;
  std::mutex& mutex_;
};

void run_ranks_over_mail(int ranks, const test::RankBody& body, std::chrono::milliseconds timeout) {
  Boards boards;
  std::mutex mutex;
  test::run_ranks(ranks, [&](World& thread) {
    MailWorld world(thread.rank(), ranks, timeout, boards, mutex);
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
  return stream << setting.backend << setting.size;
}

void run(const Setting& setting, const Body& body, std::chrono::milliseconds timeout) {
  const auto with_group = [&](World& world) {
    std::vector<int> all(world.size());
    std::iota(all.begin(), all.end(), 0);
    body(world, world.group("dp", all));
  };
  if (setting.backend == "gloo" || setting.backend == "shm") {
    test::run_ranks_over(setting.backend, setting.size, with_group, timeout);
  } else if (setting.backend == "mail") {
    run_ranks_over_mail(setting.size, with_group, timeout);
  } else {
    test::run_ranks(setting.size, with_group, timeout);
  }
}

std::vector<Setting> all_settings() {
  return {{"local", 1}, {"local", 2}, {"local", 3}, {"local", 4}, {"local", 8},
          {"mail", 2},  {"mail", 3},  {"mail", 4},  {"gloo", 2},  {"gloo", 3},
          {"shm", 2},   {"shm", 3},   {"shm", 4},   {"shm", 8}};
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

at::Tensor compute_sum(int n, int64_t numel, at::ScalarType type, at::ScalarType out_type,
                       int salt) {
  const bool exact = type == at::kDouble || type == at::kLong;
  const at::ScalarType accumulator = exact ? type : at::kFloat;
  at::Tensor sum = values(0, numel, type, salt).to(accumulator);
  for (int rank = 1; rank < n; ++rank) {
    sum = sum + values(rank, numel, type, salt).to(accumulator);
  }
  return sum.to(out_type);
}

}  // namespace

at::Tensor summed(int n, int64_t numel, at::ScalarType type, at::ScalarType out_type, int salt) {
  static std::mutex mutex;  // all ranks ask for the same sums
  static std::map<std::tuple<int, int64_t, at::ScalarType, at::ScalarType, int>, at::Tensor> sums;
  const std::lock_guard lock(mutex);
  at::Tensor& sum = sums[{n, numel, type, out_type, salt}];
  if (!sum.defined()) sum = compute_sum(n, numel, type, out_type, salt);
  return sum;
}

}  // namespace colossal::comm
