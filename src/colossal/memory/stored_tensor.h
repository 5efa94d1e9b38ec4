// A flat tensor that rests in a tier, and spans of it where they are worked on.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/memory/tiers.h"

namespace colossal::memory {

// Elements that travel together: spans begin at multiples of it from where a tensor begins, and
// are that long but for the last. 4 MiB of fp32.
inline constexpr int64_t kSpan = int64_t{1} << 20;

// Elements are counted as the owner does (a chunk's): a tensor covers a range of them.
class StoredTensor {
 public:
  // Memory of the device or the host, filled with zeros, or a region of the NVMe file of `pools`,
  // which reads as zeros until it is written.
  StoredTensor(Tier tier, Range covers, at::ScalarType type, MemoryKind kind, TierPools& pools);
  // `memory`, which is on the device.
  StoredTensor(const at::Tensor& memory, Range covers, MemoryKind kind, TierPools& pools);
  ~StoredTensor();
  StoredTensor(const StoredTensor&) = delete;
  StoredTensor& operator=(const StoredTensor&) = delete;

  Tier tier() const { return tier_; }
  Range covers() const { return covers_; }
  MemoryKind kind() const { return kind_; }
  at::ScalarType type() const { return type_; }
  TierPools& pools() const { return pools_; }
  int64_t element_bytes() const { return static_cast<int64_t>(c10::elementSize(type_)); }
  int64_t bytes() const { return covers_.size() * element_bytes(); }

  // View of the elements `range`. Not of NVMe.
  at::Tensor memory(Range range) const;

  // Elements, one call at a time, waiting for the disk: for initial values, checkpoints and errors.
  // read() gives a view where there is memory. Not counted.
  at::Tensor read(Range range) const;
  void write(int64_t begin, const at::Tensor& values);

 private:
  friend class TierTransfer;
  int64_t file_offset(int64_t element) const {
    return offset_ + (element - covers_.begin) * element_bytes();
  }
  Range span_of(int64_t element) const;

  Tier tier_;
  Range covers_;
  at::ScalarType type_;
  MemoryKind kind_;
  TierPools& pools_;
  at::Tensor memory_;  // [covers]; undefined on NVMe
  int64_t offset_ = 0;
  std::vector<bool> written_;  // spans of NVMe
};

// `range` in pieces that lie in one span of a tensor that begins at `origin`.
std::vector<Range> spans_of(Range range, int64_t origin);

// Elements `range` of a tensor at `place`, which is the device or the host: a view where they rest
// there, a copy elsewhere. On NVMe `range` is one or more whole spans.
class TierTransfer {
 public:
  // write: contents are arbitrary at first.
  enum class Access { read, write, update };
  // Whether bytes between the tensor's tier and another place count as traffic here, or by the
  // caller.
  enum class Counted { yes, no };
  // Begins to bring them.
  TierTransfer(StoredTensor& tensor, Range range, Tier place, Access access, Counted counted);
  ~TierTransfer();
  TierTransfer(TierTransfer&&) = default;
  TierTransfer(const TierTransfer&) = delete;
  TierTransfer& operator=(const TierTransfer&) = delete;

  Range range() const { return range_; }
  // [range], once it is here. Throws IoError where the disk fails or gives other bytes than were
  // written.
  const at::Tensor& tensor();
  // Begins to take back what changed; the tensor is not touched any more.
  void leave();
  // Waits for what is under way. Throws IoError.
  void finish();

 private:
  void bring();
  void count(bool to) const;
  void for_each_span(const std::function<void(size_t index, int64_t offset,
                                              std::span<std::byte> bytes)>& visit) const;

  StoredTensor* tensor_;
  Range range_;
  Tier place_;
  Access access_;
  Counted counted_;
  at::Tensor here_;
  at::Tensor staging_;  // on the host, of a tensor on NVMe
  bool arrived_ = true;
  std::vector<io::SwapFile::Transfer> transfers_;
};

// Spans on their way to NVMe that nobody waits for yet. Only the last few are: what is written
// stays in memory until it has been waited for.
class WritesUnderWay {
 public:
  // After leave(). Throws IoError where an earlier one failed, as finish() does.
  void add(TierTransfer write);
  void finish();

 private:
  std::deque<TierTransfer> writes_;
};

}  // namespace colossal::memory
