// The operators of LibTorch on emulated GPUs. A kernel is the CPU's, run later on a stream over the
// memory of its arguments; it holds no reference to tensors, as a kernel on a GPU does not.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/emulated_gpu/allocators.h"
#include "tests/support/emulated_gpu/current.h"
#include "tests/support/emulated_gpu/host_waits.h"
#include "tests/support/emulated_gpu/memory.h"
#include "tests/support/emulated_gpu/stream.h"

namespace colossal::emulated_gpu {
namespace {

using Stack = torch::jit::Stack;

// Where a kernel finds a tensor.
struct Place {
  void* memory = nullptr;         // for kernels
  const void* address = nullptr;  // as the tensor has it
  std::vector<int64_t> sizes, strides;
  at::ScalarType type = at::kFloat;

  // The tensor for the CPU's kernel.
  at::Tensor on_host() const {
    const auto options = at::TensorOptions().dtype(type);
    if (!memory) return at::empty_strided(sizes, strides, options);
    return at::from_blob(memory, sizes, strides, options);
  }
  // The bytes of the elements: one range for elements that lie one after another, or a range for
  // each row. Of tensors with very many rows, none are compared.
  std::vector<Bytes> bytes() const;
};

std::vector<Bytes> Place::bytes() const {
  if (!memory) return {};
  const auto item = static_cast<int64_t>(c10::elementSize(type));
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size; of strides that move
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (sizes[dim] > 1 && strides[dim] != 0) dims.emplace_back(strides[dim], sizes[dim]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t row = 1;  // elements that lie one after another
  size_t inner = 0;
  while (inner < dims.size() && dims[inner].first <= row) {
    row = (dims[inner].second - 1) * dims[inner].first + row;
    ++inner;
  }
  std::vector<int64_t> starts{0};
  constexpr size_t kMostRows = 1024;
  for (; inner < dims.size(); ++inner) {
    const auto [stride, size] = dims[inner];
    if (starts.size() * static_cast<size_t>(size) > kMostRows) return {};
    std::vector<int64_t> further;
    for (int64_t i = 0; i < size; ++i) {
      for (const int64_t start : starts) further.push_back(start + i * stride);
    }
    starts = std::move(further);
  }
  const auto begin = reinterpret_cast<uintptr_t>(address);
  std::vector<Bytes> found;
  found.reserve(starts.size());
  for (const int64_t start : starts) {
    found.push_back({begin + static_cast<uintptr_t>(start * item),
                     begin + static_cast<uintptr_t>((start + row) * item)});
  }
  return found;
}

void append(std::vector<Bytes>& to, const Place& place) {
  const std::vector<Bytes> bytes = place.bytes();
  to.insert(to.end(), bytes.begin(), bytes.end());
}

Place place_of(const at::Tensor& tensor) {
  const bool empty = tensor.numel() == 0 || !tensor.storage().data();
  const void* const address = empty ? nullptr : tensor.const_data_ptr();
  return {address ? for_kernels(address) : nullptr, address, tensor.sizes().vec(),
          tensor.strides().vec(), tensor.scalar_type()};
}

Stream& current_stream_of(const at::Tensor& tensor) {
  return stream_of(current_stream(tensor.device().index()));
}

at::Tensor empty_on(c10::Device device, at::IntArrayRef sizes, at::IntArrayRef strides,
                    at::ScalarType type) {
  const c10::DeviceGuard guard(device);
  return at::detail::empty_strided_generic(sizes, strides, &device_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA), type);
}

// Returns the value with each of its tensors replaced.
c10::IValue with_tensors(const c10::IValue& value,
                         const std::function<at::Tensor(const at::Tensor&)>& replace) {
  const auto of = [&](const at::Tensor& tensor) {
    return tensor.defined() ? replace(tensor) : tensor;
  };
  if (value.isTensor()) return of(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(of(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor ? std::optional(of(*tensor)) : tensor);
    }
    return list;
  }
  return value;
}

void for_each_tensor(const c10::IValue& value,
                     const std::function<void(const at::Tensor&)>& visit) {
  with_tensors(value, [&](const at::Tensor& tensor) {
    visit(tensor);
    return tensor;
  });
}

// Indices may be on the host: LibTorch copies them to the device.
bool takes_indices_of_host(const std::string& name) {
  static const std::set<std::string> names{"aten::index", "aten::index_put_",
                                           "aten::_index_put_impl_", "aten::_unsafe_index"};
  return names.contains(name);
}

// A call of an operator with tensors on a device.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack& stack)
      : op_(op), schema_(op.schema()), name_(schema_.name()) {
    const size_t count = schema_.arguments().size();
    arguments_.assign(stack.end() - static_cast<int64_t>(count), stack.end());
    torch::jit::drop(stack, count);
    find_device();
    find_written();
    place_arguments();
  }

  void run(Stack& stack) {
    const bool all_given = std::all_of(given_.begin(), given_.end(),
                                       [](const auto& argument) { return argument.has_value(); });
    if (resizes_ && all_given && !given_.empty() && name_.back() == '_') {  // nothing to do
      for (const auto& argument : given_) stack.push_back(arguments_[*argument]);
      return;
    }
    if (all_given && !resizes_ && !given_.empty()) {
      launch({});
      for (const auto& argument : given_) stack.push_back(arguments_[*argument]);
      return;
    }
    std::optional<Stack> results = meta_results();
    if (!results) results = results_of_zeros();
    if (results) {
      launch_into_new(*results, stack);
    } else {
      run_now(stack);
    }
  }

 private:
  bool is_written(size_t argument) const {
    const auto* alias = schema_.arguments()[argument].alias_info();
    return alias && alias->isWrite();
  }

  void find_device() {
    const auto refuse = [&](const c10::Device& other) {
      TORCH_CHECK(false, name_,
                  ": Expected all tensors to be on the same device, but found at least two "
                  "devices, ",
                  device_->str(), " and ", other.str(), "!");
    };
    for (const c10::IValue& argument : arguments_) {
      for_each_tensor(argument, [&](const at::Tensor& tensor) {
        if (!tensor.is_cuda()) return;
        if (device_ && *device_ != tensor.device()) refuse(tensor.device());
        device_ = tensor.device();
      });
    }
    TORCH_CHECK(device_, name_, ": no tensor on an emulated GPU");
    for (const c10::IValue& argument : arguments_) {
      for_each_tensor(argument, [&](const at::Tensor& tensor) {
        if (tensor.is_cuda() || tensor.dim() == 0 || takes_indices_of_host(name_)) return;
        refuse(tensor.device());
      });
    }
  }

  // Which results are arguments, and whether one of them is to be resized.
  void find_written() {
    for (const c10::Argument& result : schema_.returns()) {
      given_.emplace_back();
      if (!result.alias_info() || !result.alias_info()->isWrite()) continue;
      for (size_t i = 0; i < arguments_.size(); ++i) {
        if (is_written(i) && schema_.arguments()[i].alias_info()->beforeSets() ==
                                 result.alias_info()->beforeSets()) {
          given_.back() = i;
        }
      }
    }
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (!is_written(i)) continue;
      for_each_tensor(arguments_[i], [&](const at::Tensor& tensor) {
        if (tensor.numel() == 0) resizes_ = true;
      });
    }
  }

  // Replaces the tensors of arguments by places. Numbers on the host are read now.
  void place_arguments() {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      first_place_.push_back(places_.size());
      held_.push_back(with_tensors(arguments_[i], [&](const at::Tensor& tensor) {
        if (!tensor.is_cuda()) return tensor.clone();
        places_.push_back(place_of(tensor));
        append(is_written(i) ? writes_ : reads_, places_.back());
        return at::empty({0}, at::TensorOptions().device(at::kMeta));  // stands for the place
      }));
    }
  }

  // The call over the memory of its arguments.
  std::function<std::vector<c10::IValue>()> on_host() const {
    return [op = op_, held = held_, places = places_] {
      at::AutoDispatchBelowADInplaceOrView below;
      size_t next = 0;
      Stack stack;
      for (const c10::IValue& argument : held) {
        stack.push_back(with_tensors(argument, [&](const at::Tensor& tensor) {
          return tensor.is_meta() ? places[next++].on_host() : tensor;
        }));
      }
      op.callBoxed(&stack);
      return std::vector<c10::IValue>(stack.begin(), stack.end());
    };
  }

  // results: for each result, where its values go; nullopt: it is an argument.
  void launch(const std::vector<std::optional<Place>>& results) {
    std::vector<Bytes> writes = writes_;
    for (const auto& result : results) {
      if (result) append(writes, *result);
    }
    stream_of(current_stream(device_->index()))
        .launch({.name = name_,
                 .reads = reads_,
                 .writes = std::move(writes),
                 .run = [call = on_host(), results] {
                   const std::vector<c10::IValue> found = call();
                   for (size_t i = 0; i < results.size(); ++i) {
                     if (results[i]) results[i]->on_host().copy_(found[i].toTensor());
                   }
                 }});
  }

  // Returns what the operator makes of zeros on another device; nullopt: it fails, or not all
  // results are tensors.
  std::optional<Stack> results_on(c10::DeviceType device) const {
    Stack stack;
    for (const c10::IValue& argument : arguments_) {
      stack.push_back(with_tensors(argument, [&](const at::Tensor& tensor) {
        return at::empty_strided(tensor.sizes(), tensor.strides(),
                                 at::TensorOptions().dtype(tensor.scalar_type()).device(device))
            .zero_();
      }));
      if (stack.back().isDevice()) stack.back() = c10::Device(device);
    }
    try {
      op_.callBoxed(&stack);
    } catch (const std::exception&) {
      return std::nullopt;
    }
    const bool are_tensors = std::all_of(stack.begin(), stack.end(),
                                         [](const c10::IValue& value) { return value.isTensor(); });
    return are_tensors ? std::optional(stack) : std::nullopt;
  }

  // Returns the results on the meta device, for their sizes; nullopt: it cannot tell them.
  std::optional<Stack> meta_results() const {
    static std::mutex mutex;
    static auto* const without = new std::set<std::string>;  // operators
    const std::string name = name_ + "." + schema_.overload_name();
    if (given_.empty()) return std::nullopt;
    {
      const std::lock_guard lock(mutex);
      if (without->contains(name)) return std::nullopt;
    }
    if (auto results = results_on(at::kMeta)) return results;
    const std::lock_guard lock(mutex);
    without->insert(name);
    return std::nullopt;
  }

  // Whether a GPU, too, must compute the result before its size is known.
  bool size_depends_on_values() const {
    static const std::set<std::string> names{"aten::nonzero",
                                             "aten::masked_select",
                                             "aten::bincount",
                                             "aten::_unique",
                                             "aten::_unique2",
                                             "aten::unique_dim",
                                             "aten::unique_consecutive",
                                             "aten::repeat_interleave"};
    if (names.contains(name_)) return true;
    bool has_masks = false;
    if (name_ == "aten::index") {
      for_each_tensor(arguments_[1], [&](const at::Tensor& indices) {
        has_masks = has_masks || indices.scalar_type() == at::kBool;
      });
    }
    return has_masks;
  }

  // The same for operators without a kernel for the meta device: what zeros result in.
  std::optional<Stack> results_of_zeros() const {
    if (given_.empty() || size_depends_on_values()) return std::nullopt;
    for (const c10::Argument& argument : schema_.arguments()) {
      if (argument.name() == "generator") return std::nullopt;  // each call draws
    }
    at::AutoDispatchBelowADInplaceOrView below;
    return results_on(at::kCPU);
  }

  // Makes an empty argument that is a result as large as the result.
  void give_size(size_t argument, const at::Tensor& meta) {
    at::Tensor target = arguments_[argument].toTensor();
    if (target.numel() > 0 || target.sizes() == meta.sizes()) return;
    const at::Tensor made = empty_on(*device_, meta.sizes(), meta.strides(), target.scalar_type());
    at::native::set_storage_cpu_(target, made.storage(), 0, meta.sizes(), meta.strides());
    places_[first_place_[argument]] = place_of(target);
    append(writes_, place_of(target));
  }

  void launch_into_new(const Stack& metas, Stack& stack) {
    std::vector<std::optional<Place>> results;
    for (size_t i = 0; i < metas.size(); ++i) {
      const at::Tensor& meta = metas[i].toTensor();
      results.emplace_back();
      if (given_[i]) {
        give_size(*given_[i], meta);
        stack.push_back(arguments_[*given_[i]]);
      } else if (!meta.defined()) {
        stack.emplace_back(at::Tensor());
      } else {
        const at::Tensor made =
            empty_on(*device_, meta.sizes(), meta.strides(), meta.scalar_type());
        results.back() = place_of(made);
        stack.emplace_back(made);
      }
    }
    launch(results);
  }

  at::Tensor to_device(const at::Tensor& host) const {
    if (!host.defined()) return host;
    const at::Tensor made = empty_on(*device_, host.sizes(), host.strides(), host.scalar_type());
    if (made.numel() > 0) place_of(made).on_host().copy_(host);
    return made;
  }

  // The host waits for the result, as for operators whose result's size depends on values.
  void run_now(Stack& stack) {
    const HostWait wait(name_);
    Stream& stream = stream_of(current_stream(device_->index()));
    stream.launch({.name = name_, .reads = reads_, .writes = writes_, .run = [] {}});
    stream.synchronize();
    std::vector<std::pair<at::Tensor, at::Tensor>> resized;  // on the device, on the host
    size_t next = 0;
    Stack on_host;
    for (size_t i = 0; i < held_.size(); ++i) {
      on_host.push_back(with_tensors(held_[i], [&](const at::Tensor& tensor) {
        if (!tensor.is_meta()) return tensor;
        const Place& place = places_[next++];
        if (!is_written(i) || place.memory) return place.on_host();
        at::Tensor host = at::empty({0}, at::TensorOptions().dtype(place.type));
        if (arguments_[i].isTensor()) resized.emplace_back(arguments_[i].toTensor(), host);
        return host;
      }));
    }
    op_.callBoxed(&on_host);
    for (auto& [target, host] : resized) {
      if (host.sizes() == target.sizes()) continue;
      const at::Tensor grown = to_device(host);
      at::native::set_storage_cpu_(target, grown.storage(), 0, host.sizes(), host.strides());
    }
    for (size_t i = 0; i < on_host.size(); ++i) {
      if (given_[i]) {
        stack.push_back(arguments_[*given_[i]]);
      } else {
        stack.push_back(
            with_tensors(on_host[i], [&](const at::Tensor& host) { return to_device(host); }));
      }
    }
  }

  c10::OperatorHandle op_;
  const c10::FunctionSchema& schema_;
  std::string name_;
  std::vector<c10::IValue> arguments_;
  std::optional<c10::Device> device_;
  std::vector<std::optional<size_t>> given_;  // for each result, the argument that it is
  bool resizes_ = false;
  std::vector<c10::IValue> held_;  // the arguments, with meta tensors for places
  std::vector<Place> places_;
  std::vector<size_t> first_place_;  // of each argument
  std::vector<Bytes> reads_, writes_;
};

void run_operator(const c10::OperatorHandle& op, Stack* stack) {
  at::AutoDispatchBelowADInplaceOrView below;
  Call(op, *stack).run(*stack);
}

// Copies between the host and a device.
void copy_between(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const at::Tensor& host = to.is_cuda() ? from : to;
  const at::Tensor& on_device = to.is_cuda() ? to : from;
  Stream& stream = current_stream_of(on_device);
  const void* const address = host.const_data_ptr();
  const bool pinned = is_pinned(address);
  const Place target = place_of(to);
  if (!pinned && non_blocking && to.is_cuda()) {  // the driver stages it
    stream.launch({.name = "copy from the host",
                   .writes = target.bytes(),
                   .run = [target, staged = host.clone()] { target.on_host().copy_(staged); }});
    return;
  }
  const Place source = place_of(from);
  if (pinned) {
    pinned_allocator().record_event(const_cast<void*>(address), nullptr,
                                    current_stream(on_device.device().index()));
  }
  Kernel copy{.name = to.is_cuda() ? "copy from the host" : "copy to the host",
              .run = [target, source] { target.on_host().copy_(source.on_host()); }};
  if (to.is_cuda() || pinned) copy.writes = target.bytes();
  if (from.is_cuda() || pinned) copy.reads = source.bytes();
  stream.launch(std::move(copy));
  if (non_blocking && pinned) return;
  const HostWait wait(to.is_cuda() ? "copy from the host" : "copy to the host");
  stream.synchronize();
}

at::Tensor& copy(at::Tensor& self, const at::Tensor& other, bool non_blocking) {
  if (self.is_same(other) || self.numel() == 0) return self;
  at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor from = other.expand(self.sizes());
  if (!self.is_cuda() || !from.is_cuda()) {
    copy_between(self, from, non_blocking);
    return self;
  }
  const Place target = place_of(self), source = place_of(from);
  Stream& stream = current_stream_of(self);
  if (self.device() != from.device()) stream.wait_for(current_stream_of(from).record());
  stream.launch({.name = "aten::copy_",
                 .reads = source.bytes(),
                 .writes = target.bytes(),
                 .run = [target, source] { target.on_host().copy_(source.on_host()); }});
  return self;
}

c10::Device device_or_current(const std::optional<c10::Device>& device) {
  if (device && device->has_index()) return *device;
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(current_device())};
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout> /*layout*/, std::optional<c10::Device> device,
                 std::optional<bool> /*pinned*/, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(device_or_current(device));
  return at::detail::empty_generic(size, &device_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef strides,
                         std::optional<at::ScalarType> type, std::optional<at::Layout> /*layout*/,
                         std::optional<c10::Device> device, std::optional<bool> /*pinned*/) {
  return empty_on(device_or_current(device), size, strides, c10::dtype_or_default(type));
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size,
                         std::optional<at::MemoryFormat> /*format*/) {
  at::Tensor target = self;
  const auto bytes = c10::multiply_integers(size) * static_cast<int64_t>(self.dtype().itemsize());
  if (bytes <= static_cast<int64_t>(self.storage().nbytes())) {
    target.unsafeGetTensorImpl()->set_sizes_contiguous(size);
    return self;
  }
  const at::Tensor grown =
      empty_on(self.device(), size, c10::contiguous_strides(size), self.scalar_type());
  at::native::set_storage_cpu_(target, grown.storage(), 0, size, grown.strides());
  return self;
}

at::Scalar item(const at::Tensor& self) {
  const HostWait wait("item");
  const Place place = place_of(self);
  Stream& stream = current_stream_of(self);
  stream.launch({.name = "item", .reads = place.bytes(), .run = [] {}});
  stream.synchronize();
  return at::native::_local_scalar_dense_cpu(place.on_host());
}

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef strides,
                      std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, strides, offset);
}
at::Tensor view(const at::Tensor& self, at::IntArrayRef size) {
  return at::native::view(self, size);
}
at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef strides) {
  return at::native::_reshape_alias(self, size, strides);
}
at::Tensor unfold(const at::Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return at::native::unfold(self, dim, size, step);
}
at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  return at::native::set_(self, std::move(source));
}
at::Tensor& set_part_of_storage(at::Tensor& self, at::Storage source, int64_t offset,
                                at::IntArrayRef size, at::IntArrayRef strides) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, strides);
}
at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return at::native::set_tensor_(self, source);
}
void record_stream(at::Tensor& self, at::Stream stream) {
  record_use(self.storage().data(), stream);
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_operator>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("as_strided", as_strided);
  library.impl("resize_", resize);
  library.impl("copy_", copy);
  library.impl("_local_scalar_dense", item);
  library.impl("set_.source_Storage", set_storage);
  library.impl("set_.source_Storage_storage_offset", set_part_of_storage);
  library.impl("set_.source_Tensor", set_tensor);
  library.impl("record_stream", record_stream);
  library.impl("view", view);
  library.impl("_reshape_alias", reshape_alias);
  library.impl("unfold", unfold);
}

}  // namespace
}  // namespace colossal::emulated_gpu
