// A rank without peers, for dry runs. group.cpp books the law's bytes, as for any backend. Nothing
// moves, so the ledger's wire column stays 0.
#include <utility>

#include "colossal/comm/group_impl.h"
#include "colossal/comm/world.h"

namespace colossal::comm {
namespace {

class DryBackend final : public Backend {
 public:
  using Backend::Backend;
  bool is_immediate() const override { return true; }
  bool moves_nothing() const override { return true; }
  void all_reduce(const Call&, const at::Tensor&) override {}
  void reduce_scatter(const Call&, const at::Tensor&, const at::Tensor&, Counts) override {}
  void all_gather(const Call&, const at::Tensor&, Counts) override {}
  void all_to_all(const Call&, const at::Tensor&, Counts, const at::Tensor&, Counts) override {}
  void rotate(const Call&, const at::Tensor&, const at::Tensor&) override {}
  void broadcast(const Call&, const at::Tensor&, int) override {}
  void send(const Call&, const at::Tensor&, int) override {}
  void receive(const Call&, const at::Tensor&, int) override {}
  void barrier(const Call&) override {}
  void close(const std::string&) override {}
};

class DryWorld final : public World {
 public:
  DryWorld(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return "dry"; }

  Group group(const std::string& axis, const std::vector<int>& ranks) override {
    const Membership membership = membership_of(*this, axis, ranks);
    return make_group(backend(), ledger_, membership, [&] {
      return std::make_shared<DryBackend>(membership, ledger_, std::chrono::milliseconds::max());
    });
  }

  void abort(const std::string&) override {}  // no rank waits

 private:
  int rank_;
  int size_;
};

}  // namespace

std::unique_ptr<World> dry_world(int rank, int size) {
  return std::make_unique<DryWorld>(rank, size);
}

}  // namespace colossal::comm
