#include "colossal/memory/activation_store.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "colossal/base/error.h"

namespace colossal::memory {
namespace {

// Tensors that are read from NVMe ahead of the one in use. Also the number of newest tensors whose
// writes are not waited for.
constexpr size_t kLoadsAhead = 2;

}  // namespace

// A copy of a tensor's storage in a tier, which is copied back to the device on demand.
class ActivationStore::Stored {
 public:
  Stored(TierPools& pools, const c10::Storage& storage, at::ScalarType type, Tier tier)
      : pools_(pools),
        original_(storage.getWeakStorageImpl()),
        type_(type),
        numel_(static_cast<int64_t>(storage.nbytes() / c10::elementSize(type))),
        tier_(tier) {
    const at::NoGradGuard no_grad;
    at::Tensor all = at::empty({0}, options());
    all.set_(storage, 0, {numel_}, {1});
    on_host_ = pools.host_tensor(numel_, type);
    on_host_.copy_(all);
    pools.count_to(tier, MemoryKind::activations, bytes());
    if (tier == Tier::nvme && !all.is_meta()) {
      region_ = pools.swap_space().take(io::whole_swap_blocks(bytes()));
      transfer_ = region_.file->write(region_.offset, host_bytes());
      writes_ = true;
    }
    pools.count_at_rest(tier, MemoryKind::activations, bytes());
  }

  ~Stored() {
    try {
      wait();
    } catch (const Error&) {  // nothing reads it any more
    }
    if (region_.file) pools_.swap_space().give(region_);
    if (rests_) pools_.count_at_rest(tier_, MemoryKind::activations, -bytes());
  }
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;

  // Whether this copies that very storage, with elements of this type. A new storage may have the
  // address of one that was released.
  bool is_of(const c10::Storage& storage, at::ScalarType type) const {
    return type == type_ && !original_.expired() &&
           original_.lock().get() == storage.unsafeGetStorageImpl();
  }

  // Releases the host buffer once the data is on NVMe.
  void let_host_go() {
    if (tier_ != Tier::nvme || !on_host_.defined() || !writes_) return;
    wait();
    on_host_.reset();
  }

  void begin_load() {
    if (on_host_.defined() || on_device_.defined() || tier_ != Tier::nvme) return;
    on_host_ = pools_.host_tensor(numel_, type_);
    transfer_ = region_.file->read(region_.offset, host_bytes());
    reads_ = true;
  }

  // Returns the whole storage on the device: [numel_].
  const at::Tensor& on_device() {
    if (on_device_.defined()) return on_device_;
    begin_load();
    wait();
    {
      const MemoryKindScope scope(MemoryKind::activations);
      on_device_ = at::empty({numel_}, options());
    }
    on_device_.copy_(on_host_);
    on_host_.reset();
    pools_.count_from(tier_, MemoryKind::activations, bytes());
    if (tier_ == Tier::host) {  // NVMe keeps its copy until this is destroyed
      rests_ = false;
      pools_.count_at_rest(tier_, MemoryKind::activations, -bytes());
    }
    return on_device_;
  }

 private:
  at::TensorOptions options() const {
    return at::TensorOptions().dtype(type_).device(pools_.device());
  }
  int64_t bytes() const { return numel_ * static_cast<int64_t>(c10::elementSize(type_)); }
  std::span<std::byte> host_bytes() {
    return {static_cast<std::byte*>(on_host_.mutable_data_ptr()),
            static_cast<size_t>(io::whole_swap_blocks(bytes()))};
  }
  void wait() {
    if (!std::exchange(writes_, false) && !std::exchange(reads_, false)) return;
    try {
      region_.file->wait(transfer_);
    } catch (const IoError& error) {
      throw IoError(fmt::format("nvme tier, activations: {}", error.what()));
    }
  }

  TierPools& pools_;
  c10::weak_intrusive_ptr<c10::StorageImpl> original_;
  at::ScalarType type_;
  int64_t numel_;
  Tier tier_;
  at::Tensor on_host_, on_device_;
  io::SwapSpace::Region region_;
  io::SwapFile::Transfer transfer_;
  bool writes_ = false, reads_ = false;
  bool rests_ = true;
};

class ActivationStore::StoredView final : public SavedTensor {
 public:
  StoredView(std::shared_ptr<OnDisk> on_disk, std::shared_ptr<Stored> stored,
             const at::Tensor& view)
      : on_disk_(std::move(on_disk)), stored_(std::move(stored)), place_(view) {}

  at::Tensor restore() override {
    const at::NoGradGuard no_grad;
    load_before(*on_disk_, stored_.get());
    return place_.in(stored_->on_device());
  }

 private:
  std::shared_ptr<OnDisk> on_disk_;
  std::shared_ptr<Stored> stored_;
  ViewGeometry place_;
};

ActivationStore::ActivationStore(TierPools& pools, const TierShares& shares)
    : pools_(pools), shares_(shares) {}

ActivationStore::~ActivationStore() = default;

void ActivationStore::begin_forward() {
  seen_bytes_ = off_device_bytes_ = nvme_bytes_ = 0;
  stored_.clear();
  on_disk_ = std::make_shared<OnDisk>();
}

Tier ActivationStore::choose(int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  seen_bytes_ += size;
  // Decided by the sum, so that what stays on the device does not depend on the division between
  // host and NVMe.
  if (off_device_bytes_ + size / 2 > (shares_.host + shares_.nvme) * seen_bytes_) {
    return Tier::device;
  }
  off_device_bytes_ += size;
  if (nvme_bytes_ + size / 2 > shares_.nvme * seen_bytes_) return Tier::host;
  nvme_bytes_ += size;
  return Tier::nvme;
}

std::unique_ptr<SavedTensor> ActivationStore::save(const at::Tensor& tensor) {
  // Integer tensors, such as positions and labels, are small: they stay on the device.
  const bool goes = !shares_.all_on_device() && tensor.is_floating_point() &&
                    tensor.has_storage() && tensor.storage().nbytes() > 0;
  if (!goes) return keep(tensor);
  const c10::Storage& storage = tensor.storage();
  const c10::StorageImpl* const memory = storage.unsafeGetStorageImpl();
  const auto found = stored_.find(memory);
  std::shared_ptr<Stored> stored = found == stored_.end() ? nullptr : found->second.lock();
  if (stored && !stored->is_of(storage, tensor.scalar_type())) stored = nullptr;
  if (!stored) {
    const Tier tier = choose(static_cast<int64_t>(storage.nbytes()));
    if (tier == Tier::device) return keep(tensor);
    stored = std::make_shared<Stored>(pools_, storage, tensor.scalar_type(), tier);
    stored_[memory] = stored;
    if (tier == Tier::nvme) {
      // Waits for the write of an earlier tensor only, so that the newest writes overlap with
      // computing.
      if (on_disk_->size() >= kLoadsAhead) {
        if (const auto earlier = (*on_disk_)[on_disk_->size() - kLoadsAhead].lock()) {
          earlier->let_host_go();
        }
      }
      on_disk_->push_back(stored);
    }
  }
  return std::make_unique<StoredView>(on_disk_, std::move(stored), tensor);
}

void ActivationStore::load_before(OnDisk& on_disk, const Stored* stored) {
  for (size_t i = on_disk.size(); i-- > 0;) {
    if (on_disk[i].lock().get() != stored) continue;
    on_disk.resize(i + 1);
    for (size_t ahead = 1; ahead <= kLoadsAhead && ahead <= i; ++ahead) {
      if (const auto earlier = on_disk[i - ahead].lock()) earlier->begin_load();
    }
    return;
  }
}

}  // namespace colossal::memory
