// Stores activations off the device between the forward and the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "colossal/memory/saved_tensors.h"
#include "colossal/memory/tiers.h"

namespace colossal::memory {

class ActivationStore {
 public:
  // shares: the fraction of a forward pass's activation bytes that is stored in each tier, as
  // closely as whole tensors allow. `pools` must outlive this and all saved tensors.
  ActivationStore(TierPools& pools, const TierShares& shares);
  ~ActivationStore();

  // Keeps a floating-point tensor on the device or copies its memory to a tier, as `shares`
  // demands; keeps any other tensor on the device. Tensors that share memory and have one dtype are
  // stored once. The traffic counts as MemoryKind::activations. SavedTensor::restore() throws
  // IoError if the disk fails.
  std::unique_ptr<SavedTensor> save(const at::Tensor& tensor);
  // Called before each forward pass. Activations of earlier forward passes are kept until their
  // backward passes.
  void begin_forward();

 private:
  class Stored;
  class StoredView;
  // The activations of a forward pass that are on NVMe, in the order in which they were saved. The
  // backward pass needs the last one first.
  using OnDisk = std::vector<std::weak_ptr<Stored>>;

  Tier choose(int64_t bytes);
  static void load_before(OnDisk& on_disk, const Stored* stored);

  TierPools& pools_;
  TierShares shares_;
  double seen_bytes_ = 0, off_device_bytes_ = 0, nvme_bytes_ = 0;  // of this forward pass
  // By original storage; an entry is valid only while that storage still exists.
  std::unordered_map<const c10::StorageImpl*, std::weak_ptr<Stored>> stored_;
  std::shared_ptr<OnDisk> on_disk_ = std::make_shared<OnDisk>();  // of this forward pass
};

}  // namespace colossal::memory
