#include "colossal/checkpoint/weights.h"

#include "colossal/base/error.h"
#include "colossal/checkpoint/slabs.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/io/tensor_directory.h"

namespace colossal::checkpoint {
namespace {

io::TensorDirectory::Tensor find(const io::TensorDirectory& directory, const std::string& name) {
  if (directory.contains(name)) return directory.find(name);
  const std::string bare = name.substr(name.find('.') + 1);
  if (directory.contains(bare)) return directory.find(bare);
  throw ConfigError(
      fmt::format("{}: no tensor \"{}\" (nor \"{}\"); the weights are of another model",
                  directory.path().string(), name, bare));
}

}  // namespace

void read_tensor(const io::SafetensorsReader& file, const io::TensorEntry& entry,
                 const nn::Parameter& parameter, const TakeValues& take) {
  if (entry.shape != parameter.shape) {
    throw ConfigError(fmt::format("{}: tensor \"{}\" is [{}], the model needs [{}]",
                                  file.path().string(), entry.name, fmt::join(entry.shape, ", "),
                                  fmt::join(parameter.shape, ", ")));
  }
  const at::ScalarType type = tensor_type(entry.type);
  const auto element = static_cast<int64_t>(c10::elementSize(type));
  const int64_t slab = kSlabBytes / element;
  const Range span = parameter.span();
  for (int64_t begin = span.begin; begin < span.end; begin += slab) {
    const at::Tensor values = at::empty({std::min(slab, span.end - begin)}, type);
    file.read(entry, begin * element, writable_bytes_of(values));
    take(parameter, begin, values);
  }
}

void read_weights(const std::filesystem::path& folder, const nn::ParameterList& parameters,
                  const NameOf& name_of, const TakeValues& take) {
  const io::TensorDirectory directory(folder);
  for (const nn::ParameterHandle& parameter : parameters) {
    const auto [file, entry] = find(directory, name_of(parameter->name));
    read_tensor(*file, *entry, *parameter, take);
  }
}

}  // namespace colossal::checkpoint
