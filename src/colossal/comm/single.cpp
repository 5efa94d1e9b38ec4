#include <ATen/core/Tensor.h>

#include "colossal/comm/group_impl.h"
#include "colossal/comm/world.h"

namespace colossal::comm {
namespace {

class SingleWorld final : public World {
 public:
  explicit SingleWorld(c10::Device device) : device_(device) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  const char* backend() const override { return "single"; }
  c10::Device device() const override { return device_; }

  Group group(const std::string& axis, const std::vector<int>& ranks) override {
    return make_group(backend(), ledger_, membership_of(*this, axis, ranks),
                      [] { return nullptr; });
  }

  void abort(const std::string&) override {}  // no rank waits

 private:
  c10::Device device_;
};

}  // namespace

std::unique_ptr<World> single_world(c10::Device device) {
  return std::make_unique<SingleWorld>(device);
}

}  // namespace colossal::comm
