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

// The length of a span, the elements that travel together: 4 MiB of fp32. Spans begin at multiples
// of it from the beginning of a tensor; only the last may be shorter.
inline constexpr int64_t kSpan = int64_t{1} << 20;

// Elements are numbered as in the owner, such as a chunk; a tensor covers a range of them.
class StoredTensor {
 public:
  // Takes memory of the device or the host, filled with zeros, or a region of the NVMe file of
  // `pools`, which reads as zeros until it is written.
  StoredTensor(Tier tier, Range covers, at::ScalarType type, MemoryKind kind, TierPools& pools);
  // Takes over `memory`, which is on the device.
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

  // Returns a view of the elements `range`. Not for NVMe.
  at::Tensor memory(Range range) const;

  // Read and write elements, waiting for the disk: for initial values, checkpoints and errors.
  // read() returns a view if they rest in memory. The traffic is not counted.
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

// Cuts `range` at the borders of spans of a tensor that begins at `origin`.
std::vector<Range> spans_of(Range range, int64_t origin);

// Brings elements `range` of a tensor to `place`, the device or the host: a view if they rest
// there, else a copy. On NVMe `range` is one or more whole spans.
class TierTransfer {
 public:
  // write: contents are arbitrary at first.
  enum class Access { read, write, update };
  // Whether traffic between the tensor's tier and another place is counted here, or by the caller.
  enum class Counted { yes, no };
  // Begins the transfer.
  TierTransfer(StoredTensor& tensor, Range range, Tier place, Access access, Counted counted);
  ~TierTransfer();
  TierTransfer(TierTransfer&&) = default;
  TierTransfer(const TierTransfer&) = delete;
  TierTransfer& operator=(const TierTransfer&) = delete;

  Range range() const { return range_; }
  // Waits for the elements and returns them, [range]. Throws IoError if the disk fails or gives
  // other bytes than were written.
  const at::Tensor& tensor();
  // Begins to move back what changed. tensor() must not be used any more.
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

// Spans on their way to NVMe that nobody waits for yet. They are few: what is written stays in
// memory until it has been waited for.
class WritesUnderWay {
 public:
  // Takes a transfer after its leave(). Throws IoError if an earlier one failed, as finish() does.
  void add(TierTransfer write);
  void finish();

 private:
  std::deque<TierTransfer> writes_;
};

}  // namespace colossal::memory
