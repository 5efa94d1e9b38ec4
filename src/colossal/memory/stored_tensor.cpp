#include "colossal/memory/stored_tensor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "colossal/base/error.h"

namespace colossal::memory {
namespace {

constexpr size_t kWritesUnderWay = 8;

}  // namespace

StoredTensor::StoredTensor(Tier tier, Range covers, at::ScalarType type, MemoryKind kind,
                           TierPools& pools)
    : tier_(tier), covers_(covers), type_(type), kind_(kind), pools_(pools) {
  switch (tier) {
    case Tier::device: {
      const MemoryKindScope scope(kind);
      memory_ = at::zeros({covers.size()}, at::TensorOptions().dtype(type).device(pools.device()));
      break;
    }
    case Tier::host:
      memory_ = pools.host_tensor(covers.size(), type);
      memory_.zero_();
      break;
    case Tier::nvme:
      offset_ = pools.reserve_swap(bytes());
      written_.resize(static_cast<size_t>((covers.size() + kSpan - 1) / kSpan));
      break;
  }
  if (tier != Tier::device) pools.count_at_rest(tier, kind, bytes());
}

StoredTensor::StoredTensor(const at::Tensor& memory, Range covers, MemoryKind kind,
                           TierPools& pools)
    : tier_(Tier::device),
      covers_(covers),
      type_(memory.scalar_type()),
      kind_(kind),
      pools_(pools),
      memory_(memory) {
  COLOSSAL_CHECK(memory.numel() == covers.size(), "{} elements for {}", memory.numel(),
                 covers.size());
}

StoredTensor::~StoredTensor() {
  if (tier_ != Tier::device) pools_.count_at_rest(tier_, kind_, -bytes());
}

at::Tensor StoredTensor::memory(Range range) const {
  arriving_.wait();
  return view(range);
}

Copy StoredTensor::copy_to_device(Range range, const at::Tensor& to) const {
  return pools_.copies().to_device(to, view(range));
}

Copy StoredTensor::copy_from_device(Range range, const at::Tensor& from) {
  arriving_ = pools_.copies().to_host(view(range), from);
  return arriving_;
}

at::Tensor StoredTensor::view(Range range) const {
  COLOSSAL_CHECK(memory_.defined(), "elements {} to {} of a tensor on {}", range.begin, range.end,
                 tier_name(tier_));
  return memory_.narrow(0, range.begin - covers_.begin, range.size());
}

Range StoredTensor::span_of(int64_t element) const {
  const int64_t begin = covers_.begin + (element - covers_.begin) / kSpan * kSpan;
  return {begin, std::min(begin + kSpan, covers_.end)};
}

std::vector<Range> spans_of(Range range, int64_t origin) {
  std::vector<Range> pieces;
  while (!range.empty()) {
    const int64_t end = origin + ((range.begin - origin) / kSpan + 1) * kSpan;
    pieces.push_back({range.begin, std::min(end, range.end)});
    range.begin = pieces.back().end;
  }
  return pieces;
}

at::Tensor StoredTensor::read(Range range) const {
  if (memory_.defined()) return memory(range);
  auto& self = const_cast<StoredTensor&>(*this);  // reading does not change it
  const at::Tensor all =
      at::empty({range.size()}, at::TensorOptions().dtype(type_).device(pools_.device()));
  for (const Range& piece : spans_of(range, covers_.begin)) {
    const Range span = span_of(piece.begin);
    TierTransfer visit(self, span, Tier::host, TierTransfer::Access::read,
                       TierTransfer::Counted::no);
    all.narrow(0, piece.begin - range.begin, piece.size())
        .copy_(visit.tensor().narrow(0, piece.begin - span.begin, piece.size()));
  }
  return all;
}

void StoredTensor::write(int64_t begin, const at::Tensor& values) {
  const Range range{begin, begin + values.numel()};
  if (memory_.defined()) {
    memory(range).copy_(values);
    return;
  }
  for (const Range& piece : spans_of(range, covers_.begin)) {
    const Range span = span_of(piece.begin);
    TierTransfer visit(*this, span, Tier::host, TierTransfer::Access::update,
                       TierTransfer::Counted::no);
    visit.tensor()
        .narrow(0, piece.begin - span.begin, piece.size())
        .copy_(values.narrow(0, piece.begin - begin, piece.size()));
    visit.leave();
    visit.finish();
  }
}

TierTransfer::TierTransfer(StoredTensor& tensor, Range range, Tier place, Access access,
                           Counted counted)
    : tensor_(&tensor), range_(range), place_(place), access_(access), counted_(counted) {
  const at::NoGradGuard no_grad;
  if (tensor.tier_ == place) {
    here_ = tensor.memory(range);
    return;
  }
  TierPools& pools = tensor.pools_;
  if (place == Tier::device) {
    const MemoryKindScope scope(tensor.kind_);
    here_ =
        at::empty({range.size()}, at::TensorOptions().dtype(tensor.type_).device(pools.device()));
  } else {
    here_ = pools.host_tensor(range.size(), tensor.type_);
  }
  if (tensor.tier_ == Tier::nvme) {
    staging_ = place == Tier::host ? here_ : pools.host_tensor(range.size(), tensor.type_);
  }
  if (access != Access::write) bring();
}

TierTransfer::~TierTransfer() {
  try {
    arriving_.precede_current_stream();  // which may use the memory next
    finish();
  } catch (const std::exception&) {
    // Code that needs the data calls finish() or tensor(), which throw. Here, nothing needs it any
    // more.
  }
}

void TierTransfer::count(bool to) const {
  if (counted_ == Counted::no) return;
  TierPools& pools = tensor_->pools_;
  const int64_t bytes = range_.size() * tensor_->element_bytes();
  if (tensor_->tier_ == Tier::device) {
    to ? pools.count_from(place_, tensor_->kind_, bytes)
       : pools.count_to(place_, tensor_->kind_, bytes);
  } else {
    to ? pools.count_to(tensor_->tier_, tensor_->kind_, bytes)
       : pools.count_from(tensor_->tier_, tensor_->kind_, bytes);
  }
}

void TierTransfer::for_each_span(
    const std::function<void(size_t index, int64_t offset, std::span<std::byte> bytes)>& visit)
    const {
  auto* const memory = static_cast<std::byte*>(staging_.mutable_data_ptr());
  for (const Range& piece : spans_of(range_, tensor_->covers_.begin)) {
    COLOSSAL_CHECK(piece == tensor_->span_of(piece.begin), "elements {} to {} are no whole span",
                   piece.begin, piece.end);
    const auto index = static_cast<size_t>((piece.begin - tensor_->covers_.begin) / kSpan);
    const int64_t bytes = piece.size() * tensor_->element_bytes();
    visit(index, tensor_->file_offset(piece.begin),
          {memory + (piece.begin - range_.begin) * tensor_->element_bytes(),
           static_cast<size_t>(io::whole_swap_blocks(bytes))});
  }
}

void TierTransfer::bring() {
  count(/*to=*/false);
  if (tensor_->tier_ != Tier::nvme) {
    arriving_ = place_ == Tier::device
                    ? tensor_->copy_to_device(range_, here_)
                    : tensor_->pools_.copies().to_host(here_, tensor_->memory(range_));
    return;
  }
  arrived_ = false;
  if (here_.is_meta()) return;
  for_each_span([&](size_t index, int64_t offset, std::span<std::byte> bytes) {
    if (tensor_->written_[index]) {
      transfers_.push_back(tensor_->pools_.swap().read(offset, bytes));
    } else {
      std::ranges::fill(bytes, std::byte{});
    }
  });
}

const at::Tensor& TierTransfer::tensor() {
  if (!std::exchange(arrived_, true)) {
    finish();
    const at::NoGradGuard no_grad;
    if (place_ == Tier::device) arriving_ = tensor_->pools_.copies().to_device(here_, staging_);
  }
  if (place_ == Tier::device) {
    arriving_.precede_current_stream();
  } else {
    arriving_.wait();
  }
  arriving_ = {};
  return here_;
}

void TierTransfer::leave() {
  const at::NoGradGuard no_grad;
  if (access_ == Access::read || tensor_->tier_ == place_) return;
  // Nobody has asked for the elements, which are still being read: they are unchanged.
  if (!arrived_) return;
  count(/*to=*/true);
  tensor();  // what comes must not overtake what goes
  CopyStreams& copies = tensor_->pools_.copies();
  if (tensor_->tier_ == Tier::device) {
    // Whatever uses the elements next does so on the current stream.
    copies.to_device(tensor_->memory(range_), here_).precede_current_stream();
    return;
  }
  if (tensor_->tier_ == Tier::host) {
    leaving_ = tensor_->copy_from_device(range_, here_);
    return;
  }
  if (here_.is_meta()) return;
  if (place_ == Tier::device) copies.to_host(staging_, here_).wait();
  for_each_span([&](size_t index, int64_t offset, std::span<std::byte> bytes) {
    transfers_.push_back(tensor_->pools_.swap().write(offset, bytes));
    tensor_->written_[index] = true;
  });
}

void TierTransfer::finish() {
  std::exchange(leaving_, {}).precede_current_stream();
  // Waits for every transfer, even after one has failed, because their memory is freed next.
  std::string failure;
  for (const io::SwapFile::Transfer& transfer : std::exchange(transfers_, {})) {
    try {
      tensor_->pools_.swap().wait(transfer);
    } catch (const IoError& error) {
      if (failure.empty()) failure = error.what();
    }
  }
  if (failure.empty()) return;
  throw IoError(fmt::format("nvme tier, {}: {}", memory_kind_name(tensor_->kind_), failure));
}

void PendingWrites::add(TierTransfer write) {
  writes_.push_back(std::move(write));
  while (writes_.size() > kWritesUnderWay) {
    TierTransfer oldest = std::move(writes_.front());
    writes_.pop_front();
    oldest.finish();
  }
}

void PendingWrites::finish() {
  for (TierTransfer& write : std::exchange(writes_, {})) write.finish();
}

}  // namespace colossal::memory
