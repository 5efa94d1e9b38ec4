#include "colossal/checkpoint/weights.h"

#include <ATen/ops/all.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/checkpoint/strided_shards.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/checkpoint/tensor_values.h"
#include "colossal/ops/optimizer_kernels.h"

namespace colossal::checkpoint {
namespace {

using Tensor = io::TensorDirectory::Tensor;

// Returns the name without its first part: "wte.weight" of "transformer.wte.weight". A name of two
// parts, such as "lm_head.weight", stays as it is.
std::string bare_name(const std::string& name) {
  const std::string bare = name.substr(name.find('.') + 1);
  return bare.find('.') == std::string::npos ? name : bare;
}

// Returns the names that a tensor may have: its own; without the model's prefix; and two for models
// that also read images, as published and as transformers 5 saves them.
std::vector<std::string> names_tried(const std::string& name) {
  const std::string bare = bare_name(name);
  return {name, bare, "language_model." + name, "model.language_model." + bare};
}

std::optional<Tensor> look_for(const WeightFolder& directory, const std::string& name) {
  for (const std::string& tried : names_tried(name)) {
    if (directory.contains(tried)) return directory.find(tried);
  }
  return std::nullopt;
}

[[noreturn]] void refuse_missing(const WeightFolder& directory, const std::string& name) {
  const std::string bare = bare_name(name);
  throw ConfigError(fmt::format("{}: no tensor \"{}\"{}; the weights are of another model",
                                directory.path().string(), name,
                                bare == name ? "" : fmt::format(" (nor \"{}\")", bare)));
}

}  // namespace

Tensor find_weight(const WeightFolder& directory, const std::string& name) {
  if (const auto found = look_for(directory, name)) return *found;
  refuse_missing(directory, name);
}

namespace {

std::unique_ptr<StoredTensor> find_stored_weight(const WeightFolder& directory,
                                                 const std::string& name) {
  for (const std::string& tried : names_tried(name)) {
    if (auto found = find_stored_tensor(directory, tried)) return found;
  }
  refuse_missing(directory, name);
}

bool have_equal_bytes(const Tensor& a, const Tensor& b) {
  if (a.entry->type != b.entry->type || a.entry->shape != b.entry->shape) return false;
  std::vector<std::byte> of_a, of_b;
  for (int64_t done = 0; done < a.entry->bytes(); done += kBufferBytes) {
    of_a.resize(static_cast<size_t>(std::min(kBufferBytes, a.entry->bytes() - done)));
    of_b.resize(of_a.size());
    a.file->read(*a.entry, done, of_a);
    b.file->read(*b.entry, done, of_b);
    if (of_a != of_b) return false;
  }
  return true;
}

// Bytes of a buffer that stays in the CPU's caches.
constexpr int64_t kCachedBufferBytes = int64_t{2} << 20;

// Whether the tensor need not be read. Throws ConfigError if it should be a copy of another tensor
// and is not.
bool is_spare(const WeightFolder& directory, const std::string& name, const SpareTensor& spare) {
  const std::optional<std::string> original = spare(name);
  if (!original) return false;
  if (original->empty()) return true;
  if (have_equal_bytes(directory.find(name), find_weight(directory, *original))) return true;
  throw ConfigError(
      fmt::format("{}: tensor \"{}\" differs from \"{}\", but both must be equal with "
                  "tie_word_embeddings = true; use model.tie_word_embeddings = false, or remove it",
                  directory.path().string(), name, *original));
}

// Whether this is a bias of zeros, which some tools store with packed weights of layers without a
// bias.
bool is_bias_of_zeros(const WeightFolder& directory, const std::string& name) {
  constexpr std::string_view kBias = ".bias";
  if (directory.form().method.empty() || !name.ends_with(kBias)) return false;
  return std::ranges::all_of(read_floats(directory.find(name)),
                             [](float value) { return value == 0; });
}

void check_all_are_read(const WeightFolder& directory, const nn::ParameterList& parameters,
                        const SliceOf& slice_of, const SpareTensor& spare) {
  std::set<std::string> read;
  for (const nn::ParameterHandle& parameter : parameters) {
    for (const std::string& name : slice_of(parameter->name).names()) {
      for (const std::string& tried : names_tried(name)) {
        const std::vector<std::string> held = names_of_stored(directory, tried);
        read.insert(held.begin(), held.end());
        if (!held.empty()) break;
      }
    }
  }
  std::vector<std::string> unread;
  for (const std::string& name : directory.names()) {
    if (read.contains(name) || is_spare(directory, name, spare)) continue;
    if (!is_bias_of_zeros(directory, name)) unread.push_back(name);
  }
  if (unread.empty()) return;
  constexpr size_t kShown = 3;
  const std::span shown = std::span(unread).first(std::min(unread.size(), kShown));
  throw ConfigError(
      fmt::format("{}: {} of its {} tensors belong to no parameter of the model that config.json "
                  "describes: \"{}\"{}; without them the model would differ from the saved one",
                  directory.path().string(), unread.size(), directory.names().size(),
                  fmt::join(shown, "\", \""), unread.size() > kShown ? " ..." : ""));
}

void require_finite(const StoredTensor& tensor, const at::Tensor& values) {
  // ops::all_finite() needs no copies. LibTorch's check makes several, each as large as the
  // weights.
  const at::ScalarType type = values.scalar_type();
  const bool is_known = type == at::kDouble || type == at::kFloat || type == at::kBFloat16;
  if (is_known ? ops::all_finite(values.view(-1)) : at::isfinite(values).all().item<bool>()) return;
  throw IoError(
      fmt::format("{}: the weights \"{}\" hold numbers that are not finite; nothing can be "
                  "computed from them",
                  tensor.file().string(), tensor.name()));
}

// Returns one of the tensors that a folder has for a weight: its elements, scales or zero points.
using TensorOf = std::function<std::unique_ptr<StoredTensor>(const std::string& name)>;

TensorOf numbers_in(const WeightFolder& directory) {
  return [&](const std::string& name) { return find_stored_weight(directory, name); };
}

// Returns this rank's shard of a parameter, in the file's type.
at::Tensor read_whole(const TensorOf& tensor_of, const nn::Parameter& parameter,
                      const TensorSlice& slice) {
  const int64_t count = parameter.local_numel();
  at::Tensor whole = at::empty({count}, tensor_of(slice.name)->type());
  for (const TensorPart& part : tensor_parts(slice, parameter, {0, count})) {
    if (part.here.empty()) continue;
    const auto tensor = tensor_of(part.name);
    read_tensor(
        *tensor, parameter, slice, part.here,
        [&](int64_t begin, const at::Tensor& values) {
          require_finite(*tensor, values);
          whole.narrow(0, begin, values.numel()).copy_(values);
        },
        kCachedBufferBytes);
  }
  return whole.view(parameter.local_shape());
}

// Returns the dim of a weight (or of a stack of weights) along which its inputs are counted.
size_t input_dim(const nn::Parameter& parameter) {
  return parameter.shape.size() - (parameter.product == nn::WeightOrder::in_out ? 2 : 1);
}

// Returns a parameter with one element for each group of inputs, to read this rank's shard of a
// weight's scales or zero points.
nn::Parameter groups_of(const nn::Parameter& weight, const ops::Quantization& how) {
  nn::Parameter groups;
  groups.name = weight.name;
  groups.shape = weight.shape;
  groups.placement.held = weight.placement.held;
  const size_t dim = input_dim(weight);
  const int64_t inputs = weight.shape[dim], size = ops::inputs_of_group(inputs, how);
  groups.shape[dim] = ops::groups_of_output(inputs, how);
  if (groups.placement.held.empty()) return groups;
  for (Range& run : groups.placement.held[dim]) {
    if (!run.empty()) run = {run.begin / size, (run.end + size - 1) / size};
  }
  return groups;
}

LocalWeights read_here(const WeightFolder& directory, const nn::Parameter& parameter,
                       const TensorSlice& slice, bool as_stored) {
  LocalWeights here{.numbers = read_whole(numbers_in(directory), parameter, slice)};
  if (as_stored) here.stored = stored_quantization(directory, parameter, slice);
  if (!here.stored) return here;
  const nn::Parameter groups = groups_of(parameter, *here.stored);
  here.scales = read_whole(
      [&](const std::string& name) { return find_stored_weight(directory, name)->scales(); },
      groups, slice);
  if (!here.stored->zero_point) return here;
  here.zeros = read_whole(
      [&](const std::string& name) { return find_stored_weight(directory, name)->zeros(); }, groups,
      slice);
  return here;
}

}  // namespace

std::optional<ops::Quantization> stored_quantization(const WeightFolder& directory,
                                                     const nn::Parameter& parameter,
                                                     const TensorSlice& slice) {
  if (!parameter.product || slice.num_columns > 0) return std::nullopt;
  std::optional<ops::Quantization> first;
  for (const std::string& name : slice.names()) {
    const auto how = find_stored_weight(directory, name)->quantization();
    if (!how || (first && *how != *first)) return std::nullopt;
    first = how;
  }
  return first;
}

at::Tensor read_parameter(const WeightFolder& directory, const nn::Parameter& parameter,
                          const TensorSlice& slice) {
  return read_whole(numbers_in(directory), parameter, slice);
}

std::vector<int64_t> weight_shape(const WeightFolder& directory, const std::string& name) {
  return find_stored_weight(directory, name)->shape();
}

at::Tensor read_weight(const WeightFolder& directory, const std::string& name) {
  const auto tensor = find_stored_weight(directory, name);
  const at::Tensor values = at::empty(tensor->shape(), tensor->type());
  tensor->read(0, writable_bytes_of(values));
  require_finite(*tensor, values);
  return values;
}

std::vector<TensorPart> tensor_parts(const TensorSlice& slice, const nn::Parameter& parameter,
                                     Range here) {
  if (slice.stacked.empty()) return {{slice.name, here}};
  const std::vector<int64_t> shape = parameter.local_shape();
  const int64_t size = shape.front() > 0 ? parameter.local_numel() / shape.front() : 0;
  const std::vector<Range> runs = parameter.placement.held.empty()
                                      ? std::vector<Range>{{0, parameter.shape.front()}}
                                      : parameter.placement.held.front();
  std::vector<TensorPart> parts;
  for (const std::string& name : slice.stacked) parts.push_back({name, {}});
  int64_t begin = 0;
  for (const Range& run : runs) {
    for (int64_t index = run.begin; index < run.end; ++index) {
      parts[static_cast<size_t>(index)].here = intersect(here, {begin, begin + size});
      begin += size;
    }
  }
  return parts;
}

void read_tensor(const StoredTensor& tensor, const nn::Parameter& parameter,
                 const TensorSlice& slice, Range here, const TakeValues& take,
                 int64_t buffer_bytes) {
  const std::vector<int64_t> shape = slice.tensor_shape(parameter.shape);
  if (tensor.shape() != shape) {
    throw ConfigError(fmt::format("{}: tensor \"{}\" is [{}], but the model needs [{}]",
                                  tensor.file().string(), tensor.name(),
                                  fmt::join(tensor.shape(), ", "), fmt::join(shape, ", ")));
  }
  const at::ScalarType type = tensor.type();
  const auto element = static_cast<int64_t>(c10::elementSize(type));
  const int64_t most = std::min(buffer_bytes / element, here.size());
  const at::Tensor buffer = at::empty({most}, type);
  for (int64_t begin = here.begin; begin < here.end; begin += most) {
    const Range now{begin, std::min(begin + most, here.end)};
    const at::Tensor values = buffer.narrow(0, 0, now.size());
    const std::span<std::byte> bytes = writable_bytes_of(values);
    parameter.for_each_run(now, [&](const nn::Parameter::Run& run) {
      const int64_t to = run.local_begin - begin - run.begin;
      slice.for_each_run(
          parameter.shape, {run.begin, run.begin + run.count}, [&](const TensorSlice::Run& part) {
            tensor.read(part.tensor_begin,
                        bytes.subspan(static_cast<size_t>((to + part.parameter_begin) * element),
                                      static_cast<size_t>(part.count * element)));
          });
    });
    take(begin, values);
  }
}

void read_weights_of_tensor(const StoredTensor& tensor, const nn::Parameter& parameter,
                            const TensorSlice& slice, Range here, memory::ChunkEngine& chunks) {
  // A buffer that stays in the caches is copied twice as fast. But each write to NVMe is a transfer
  // of its own and should be larger.
  const bool in_memory = chunks.options().tiers.parameters.all_on_device();
  read_tensor(
      tensor, parameter, slice, here,
      [&](int64_t begin, const at::Tensor& values) {
        require_finite(tensor, values);
        chunks.store_weights(parameter, begin, values);
      },
      in_memory ? kCachedBufferBytes : kBufferBytes);
}

void read_weights(const std::filesystem::path& folder, const nn::ParameterList& parameters,
                  memory::ChunkEngine& chunks, const SliceOf& slice_of, const SpareTensor& spare,
                  const UnchunkedParameters& apart, const ChangedWeights& changed) {
  const WeightFolder directory(folder);
  nn::ParameterList all = chunks.parameters();
  all.insert(all.end(), apart.parameters.begin(), apart.parameters.end());
  check_all_are_read(directory, all, slice_of, spare);
  for (const nn::ParameterHandle& parameter : apart.parameters) {
    apart.take(*parameter,
               read_here(directory, *parameter, slice_of(parameter->name), apart.as_stored));
  }
  for (const nn::ParameterHandle& parameter : parameters) {
    const TensorSlice slice = slice_of(parameter->name);
    const bool changes = changed.applies && changed.applies(*parameter);
    if (parameter->packed || changes) {
      if (!chunks.is_here(*parameter)) continue;
      at::Tensor here = read_whole(numbers_in(directory), *parameter, slice);
      if (changes) here = changed.change(*parameter, here);
      parameter->packed ? chunks.store_packed(*parameter, here)
                        : chunks.store_weights(*parameter, 0, here.contiguous().view(-1));
      continue;
    }
    for (const TensorPart& part :
         tensor_parts(slice, *parameter, chunks.kept_weights(*parameter))) {
      read_weights_of_tensor(*find_stored_weight(directory, part.name), *parameter, slice,
                             part.here, chunks);
    }
  }
}

void read_weights_of_file(const std::filesystem::path& path, const nn::ParameterList& parameters,
                          memory::ChunkEngine& chunks, const SliceOf& slice_of,
                          const std::function<bool(const std::string& tensor)>& spare) {
  const io::SafetensorsReader file(path);
  std::set<std::string> read;
  for (const nn::ParameterHandle& parameter : parameters) {
    const TensorSlice slice = slice_of(parameter->name);
    for (const TensorPart& part :
         tensor_parts(slice, *parameter, chunks.kept_weights(*parameter))) {
      const io::TensorEntry* entry = file.find(part.name);
      if (!entry) {
        throw ConfigError(fmt::format("{}: no tensor \"{}\"", path.string(), part.name));
      }
      read.insert(part.name);
      read_weights_of_tensor(*stored_tensor(file, *entry), *parameter, slice, part.here, chunks);
    }
  }
  for (const io::TensorEntry& entry : file.entries()) {
    if (read.contains(entry.name) || spare(entry.name)) continue;
    throw ConfigError(fmt::format("{}: tensor \"{}\" belongs to nothing that is read from it",
                                  path.string(), entry.name));
  }
}

}  // namespace colossal::checkpoint
