#include "colossal/memory/activation_store.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <exception>
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
  // before: what was copied before this in the forward pass; it is needed after this in the
  // backward pass.
  Stored(TierPools& pools, const c10::Storage& storage, at::ScalarType type, Tier tier,
         std::weak_ptr<Stored> before)
      : pools_(pools),
        before_(std::move(before)),
        original_(storage.getWeakStorageImpl()),
        type_(type),
        numel_(static_cast<int64_t>(storage.nbytes() / c10::elementSize(type))),
        tier_(tier) {
    const at::NoGradGuard no_grad;
    source_ = at::empty({0}, options());
    source_.set_(storage, 0, {numel_}, {1});
    on_host_ = pools.host_tensor(numel_, type);
    copy_ = pools.copies().to_host(on_host_, source_);
    pools.count_to(tier, MemoryKind::activations, bytes());
    pools.count_at_rest(tier, MemoryKind::activations, bytes());
    if (!pools.copies().are_asynchronous()) end_copy();
  }

  ~Stored() {
    try {
      copy_.precede_current_stream();  // which may use the memory on the device next
      wait();
    } catch (const std::exception&) {  // nothing reads it any more
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

  // Releases the storage on the device when it has been copied. To write it to NVMe, the host waits
  // for the copy.
  void end_copy() {
    if (!source_.defined()) return;
    copy_.precede_current_stream();
    if (tier_ == Tier::nvme && !source_.is_meta()) {
      copy_.wait();
      region_ = pools_.swap_space().take(io::whole_swap_blocks(bytes()));
      transfer_ = region_.file->write(region_.offset, host_bytes());
      writes_ = true;
    }
    copy_ = {};
    source_.reset();
  }

  // Releases the host buffer once the data is on NVMe.
  void let_host_go() {
    end_copy();
    if (tier_ != Tier::nvme || !on_host_.defined() || !writes_) return;
    wait();
    on_host_.reset();
  }

  void begin_load() {
    end_copy();
    if (on_host_.defined() || on_device_.defined() || tier_ != Tier::nvme) return;
    on_host_ = pools_.host_tensor(numel_, type_);
    transfer_ = region_.file->read(region_.offset, host_bytes());
    reads_ = true;
  }

  // Returns the whole storage on the device: [numel_]. Begins to fetch the one that is needed next.
  const at::Tensor& on_device() {
    fetch();
    std::exchange(copy_, {}).precede_current_stream();
    if (const std::shared_ptr<Stored> next = before_.lock()) next->fetch_ahead();
    return on_device_;
  }

 private:
  at::TensorOptions options() const {
    return at::TensorOptions().dtype(type_).device(pools_.device());
  }
  void fetch_ahead() {
    if (tier_ == Tier::host && pools_.copies().are_asynchronous()) fetch();
  }
  // Begins to copy the storage to the device.
  void fetch() {
    if (on_device_.defined()) return;
    begin_load();
    wait();
    {
      const MemoryKindScope scope(MemoryKind::activations);
      on_device_ = at::empty({numel_}, options());
    }
    copy_ = pools_.copies().to_device(on_device_, on_host_);
    on_host_.reset();
    pools_.count_from(tier_, MemoryKind::activations, bytes());
    if (tier_ == Tier::host) {  // NVMe keeps its copy until this is destroyed
      rests_ = false;
      pools_.count_at_rest(tier_, MemoryKind::activations, -bytes());
    }
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
  std::weak_ptr<Stored> before_;
  c10::weak_intrusive_ptr<c10::StorageImpl> original_;
  at::ScalarType type_;
  int64_t numel_;
  Tier tier_;
  at::Tensor source_;  // the storage, while it is copied to the host
  at::Tensor on_host_, on_device_;
  Copy copy_;  // the last one, to the host or to the device
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
  if (const std::shared_ptr<Stored> last = last_.lock()) last->end_copy();
  last_.reset();
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
    const std::shared_ptr<Stored> before = last_.lock();
    if (before) before->end_copy();
    stored = std::make_shared<Stored>(pools_, storage, tensor.scalar_type(), tier, before);
    last_ = stored;
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
