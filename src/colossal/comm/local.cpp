// Ranks as threads. In a collective, each rank reads its peers' memory and writes only its own,
// between barriers. What one rank sends to one other is a message. Sums are made by the same
// function and in the same order as over a network, so the results have the same bits.
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/comm/group_impl.h"
#include "colossal/comm/local_messages.h"
#include "colossal/comm/sum.h"
#include "colossal/comm/world.h"

namespace colossal::comm {
namespace {

std::vector<int64_t> copy_of(Counts counts) {
  return {counts.begin(), counts.end()};
}

class LocalBackend final : public MessageBackend {
 public:
  using MessageBackend::MessageBackend;

  void all_reduce(const Call& call, const at::Tensor& tensor) override {
    const std::vector<int64_t> counts = even_counts(tensor.numel(), size());
    const std::vector<int64_t> offsets = offsets_of(counts);
    const int64_t element_bytes = tensor.element_size();
    std::byte* own_part = memory_of(tensor) + offsets[rank()] * element_bytes;
    arrive(call, tensor, {}, {});
    sum_parts(call, offsets[rank()], counts[rank()], own_part, tensor.scalar_type());
    board().meet();
    copy_parts(call, memory_of(tensor), counts, offsets, element_bytes);
    board().leave();
  }

  void reduce_scatter(const Call& call, const at::Tensor& full, const at::Tensor& part,
                      Counts counts) override {
    arrive(call, full, copy_of(counts), {});
    sum_parts(call, offsets_of(counts)[rank()], counts[rank()], memory_of(part),
              part.scalar_type());
    board().leave();
  }

  void all_gather(const Call& call, const at::Tensor& full, Counts counts) override {
    arrive(call, full, copy_of(counts), {});
    copy_parts(call, memory_of(full), counts, offsets_of(counts), full.element_size());
    board().leave();
  }

  void all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                  const at::Tensor& receive, Counts receive_counts) override {
    arrive(call, send, copy_of(send_counts), copy_of(receive_counts));
    std::byte* into = memory_of(receive);
    for (int source = 0; source < size(); ++source) {
      const Counts their_counts = board().state_of(source).send_counts;
      const int64_t begin = total(their_counts.first(rank()));
      const int64_t bytes = receive_counts[source] * receive.element_size();
      read(call, source, begin * receive.element_size(), bytes, into);
      into += bytes;
    }
    board().leave();
  }

  void barrier(const Call& call) override {
    board().arrive(rank(), {.call = call}, new_deadline());
    board().leave();
  }

 private:
  void arrive(const Call& call, const at::Tensor& tensor, std::vector<int64_t> send_counts,
              std::vector<int64_t> receive_counts) {
    board().arrive(rank(),
                   {.call = call,
                    .memory = memory_of(tensor),
                    .send_counts = std::move(send_counts),
                    .receive_counts = std::move(receive_counts),
                    .ledger = &ledger()},
                   new_deadline());
  }

  // These functions run between arrive() and leave(), where peers wait for this rank without a
  // deadline. They must not throw.

  void book_read(const Call& call, int source, int64_t bytes) noexcept {
    if (source == rank() || bytes == 0) return;
    board().state_of(source).ledger->book_wire(membership().axis, call.reason, bytes);
  }

  void read(const Call& call, int source, int64_t begin, int64_t bytes, std::byte* into) noexcept {
    if (bytes > 0) std::memmove(into, board().state_of(source).memory + begin, bytes);
    book_read(call, source, bytes);
  }

  void sum_parts(const Call& call, int64_t begin, int64_t count, std::byte* out,
                 at::ScalarType out_type) noexcept {
    const auto element_bytes = static_cast<int64_t>(c10::elementSize(call.type));
    std::vector<const void*> sources;
    for (int source = 0; source < size(); ++source) {
      sources.push_back(board().state_of(source).memory + begin * element_bytes);
      book_read(call, source, count * element_bytes);
    }
    sum_in_rank_order(sources, count, call.type, out, out_type);
  }

  void copy_parts(const Call& call, std::byte* full, Counts counts, Counts offsets,
                  int64_t element_bytes) noexcept {
    for (int source = 0; source < size(); ++source) {
      if (source == rank()) continue;
      const int64_t begin = offsets[source] * element_bytes;
      read(call, source, begin, counts[source] * element_bytes, full + begin);
    }
  }
};

// What the worlds of all ranks share: the boards of their groups.
class LocalProcess {
 public:
  explicit LocalProcess(int size) : lost_(size) {}

  // Returns the board of the `ordinal`-th group of these ranks on this axis.
  std::shared_ptr<LocalBoard> board(const std::string& axis, const std::vector<int>& ranks,
                                    int ordinal) {
    const std::lock_guard lock(mutex_);
    auto& board = boards_[{axis, ranks, ordinal}];
    if (!board) {
      board = std::make_shared<LocalBoard>(ranks);
      for (size_t i = 0; i < ranks.size(); ++i) {
        if (const auto& why = lost_[ranks[i]]; !why.empty()) board->lose(static_cast<int>(i), why);
      }
    }
    return board;
  }

  void lose(int rank, const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (!lost_[rank].empty()) return;
    lost_[rank] = why.empty() ? "aborted" : why;
    for (auto& [key, board] : boards_) {
      const std::vector<int>& ranks = std::get<1>(key);
      const auto member = std::find(ranks.begin(), ranks.end(), rank);
      if (member != ranks.end()) board->lose(static_cast<int>(member - ranks.begin()), lost_[rank]);
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<std::string, std::vector<int>, int>, std::shared_ptr<LocalBoard>> boards_;
  std::vector<std::string> lost_;  // reason, by global rank; empty: not lost
};

class LocalWorld final : public World {
 public:
  LocalWorld(int rank, int size, std::chrono::milliseconds timeout,
             std::shared_ptr<LocalProcess> process)
      : rank_(rank), size_(size), timeout_(timeout), process_(std::move(process)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return "local"; }

  Group group(const std::string& axis, const std::vector<int>& ranks) override {
    Membership membership = membership_of(*this, axis, ranks);
    auto board = process_->board(axis, ranks, made_[{axis, ranks}]++);
    return make_group(backend(), ledger_, membership, [&] {
      return std::make_shared<LocalBackend>(membership, ledger_, timeout_, std::move(board));
    });
  }

  void abort(const std::string& why) override { process_->lose(rank_, why); }

 private:
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<LocalProcess> process_;
  std::map<std::pair<std::string, std::vector<int>>, int> made_;
};

}  // namespace

std::vector<std::unique_ptr<World>> local_worlds(int size, std::chrono::milliseconds timeout) {
  auto process = std::make_shared<LocalProcess>(size);
  std::vector<std::unique_ptr<World>> worlds;
  for (int rank = 0; rank < size; ++rank) {
    worlds.push_back(std::make_unique<LocalWorld>(rank, size, timeout, process));
  }
  return worlds;
}

}  // namespace colossal::comm
