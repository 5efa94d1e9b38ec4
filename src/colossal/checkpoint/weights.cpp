#include "colossal/checkpoint/weights.h"

#include <ATen/ops/all.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/checkpoint/slabs.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/io/tensor_directory.h"

namespace colossal::checkpoint {
namespace {

io::TensorDirectory::Tensor find(const io::TensorDirectory& directory, const std::string& name) {
  if (directory.contains(name)) return directory.find(name);
  // Saved without its head, a model's names lack their first part; "lm_head.weight" has none such.
  const bool has_prefix = std::ranges::count(name, '.') > 1;
  const std::string bare = has_prefix ? name.substr(name.find('.') + 1) : name;
  if (directory.contains(bare)) return directory.find(bare);
  throw ConfigError(fmt::format("{}: no tensor \"{}\"{}; the weights are of another model",
                                directory.path().string(), name,
                                has_prefix ? fmt::format(" (nor \"{}\")", bare) : ""));
}

}  // namespace

void read_tensor(const io::SafetensorsReader& file, const io::TensorEntry& entry,
                 const nn::Parameter& parameter, Range here, const TakeValues& take) {
  if (entry.shape != parameter.shape) {
    throw ConfigError(fmt::format("{}: tensor \"{}\" is [{}], the model needs [{}]",
                                  file.path().string(), entry.name, fmt::join(entry.shape, ", "),
                                  fmt::join(parameter.shape, ", ")));
  }
  const at::ScalarType type = tensor_type(entry, file.path());
  const auto element = static_cast<int64_t>(c10::elementSize(type));
  const int64_t slab = kSlabBytes / element;
  for (int64_t begin = here.begin; begin < here.end; begin += slab) {
    const Range now{begin, std::min(begin + slab, here.end)};
    const at::Tensor values = at::empty({now.size()}, type);
    const std::span<std::byte> bytes = writable_bytes_of(values);
    parameter.for_each_run(now, [&](const nn::Parameter::Run& run) {
      file.read(entry, run.begin * element,
                bytes.subspan(static_cast<size_t>((run.local_begin - begin) * element),
                              static_cast<size_t>(run.count * element)));
    });
    take(begin, values);
  }
}

void store_finite_weights(const io::SafetensorsReader& file, const io::TensorEntry& entry,
                          const nn::Parameter& parameter, int64_t begin, const at::Tensor& values,
                          memory::ChunkEngine& chunks) {
  if (!at::isfinite(values).all().item<bool>()) {
    throw IoError(
        fmt::format("{}: the weights \"{}\" hold numbers that are not finite; nothing can be "
                    "computed from them",
                    file.path().string(), entry.name));
  }
  chunks.store_weights(parameter, begin, values);
}

void read_weights(const std::filesystem::path& folder, const nn::ParameterList& parameters,
                  memory::ChunkEngine& chunks, const NameOf& name_of) {
  const io::TensorDirectory directory(folder);
  for (const nn::ParameterHandle& parameter : parameters) {
    const auto [file, entry] = find(directory, name_of(parameter->name));
    read_tensor(*file, *entry, *parameter, chunks.kept_weights(*parameter),
                [&](int64_t begin, const at::Tensor& values) {
                  store_finite_weights(*file, *entry, *parameter, begin, values, chunks);
                });
  }
}

}  // namespace colossal::checkpoint
