// ActivationStore: stores saved activations in host memory or on NVMe between the forward and the
// backward pass (memory.offload_activations). Activations (activations.h) uses this.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "colossal/memory/saved_tensors.h"
#include "colossal/memory/tiers.h"

namespace colossal::memory {

// Not thread-safe: save(), begin_forward() and SavedTensor::restore() must not run at the same
// time. They may run on different threads: on a GPU, autograd restores tensors on a thread of its
// own.
class ActivationStore {
 public:
  // shares: the fraction of the activation bytes of each forward pass that is stored in each tier.
  // The bytes are those of the storages of floating-point tensors. Storages are not divided, so
  // the fractions are met only approximately. `pools` must outlive this and all saved tensors.
  ActivationStore(TierPools& pools, const TierShares& shares);
  ~ActivationStore();

  // Keeps the tensor on the device, or copies its whole storage to the host or to NVMe, so that the
  // fractions approach `shares`. Returns the saved tensor. Tensors that are not floating-point are
  // always kept on the device, and do not count in the fractions. If the storage was already copied
  // in this forward pass, for a tensor of the same dtype, it is not copied again. The traffic
  // counts as MemoryKind::activations. A GPU copies storages while it computes: the last one that
  // was copied stays on the device until the next is saved or the next forward pass begins, and one
  // of those on the host is fetched ahead. save() and SavedTensor::restore() throw IoError if the
  // disk fails or host memory cannot be allocated.
  std::unique_ptr<SavedTensor> save(const at::Tensor& tensor);
  // Call this before each forward pass: the fractions are counted anew. Activations of earlier
  // forward passes are kept until their backward passes.
  void begin_forward();

 private:
  class Stored;
  class StoredView;
  // The activations of a forward pass that are on NVMe, in the order in which they were saved. The
  // backward pass needs them in reverse order.
  using OnDisk = std::vector<std::weak_ptr<Stored>>;

  // Returns the tier for the next activation of the forward pass, of `bytes` bytes.
  Tier choose(int64_t bytes);
  // Begins to read from NVMe the two activations that were saved before `stored`: the backward pass
  // needs them next. Removes those that were saved after `stored` from `on_disk`.
  static void load_before(OnDisk& on_disk, const Stored* stored);

  TierPools& pools_;
  TierShares shares_;
  // Bytes that this forward pass has saved: in all, off the device (host and NVMe), and on NVMe.
  double seen_bytes_ = 0, off_device_bytes_ = 0, nvme_bytes_ = 0;
  std::weak_ptr<Stored> last_;  // the last one that this forward pass has copied
  // By original storage; an entry is valid only while that storage still exists.
  std::unordered_map<const c10::StorageImpl*, std::weak_ptr<Stored>> stored_;
  std::shared_ptr<OnDisk> on_disk_ = std::make_shared<OnDisk>();  // of this forward pass
};

}  // namespace colossal::memory
