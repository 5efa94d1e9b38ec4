#include "colossal/checkpoint/buffers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "colossal/base/error.h"
#include "colossal/checkpoint/tensor_bytes.h"
#include "colossal/io/tensor_directory.h"

namespace colossal::checkpoint {
namespace {

io::ScalarType type_of(const std::string& name, const at::Tensor& buffer) {
  switch (buffer.scalar_type()) {
    case at::kDouble:
    case at::kFloat:
    case at::kBFloat16:
    case at::kHalf:
      return file_type(buffer.scalar_type());
    case at::kComplexFloat:
      return io::ScalarType::c64;
    case at::kLong:
      return io::ScalarType::i64;
    case at::kInt:
      return io::ScalarType::i32;
    case at::kShort:
      return io::ScalarType::i16;
    case at::kChar:
      return io::ScalarType::i8;
    case at::kByte:
      return io::ScalarType::u8;
    case at::kBool:
      return io::ScalarType::boolean;
    default:
      throw ConfigError(
          fmt::format("the buffer {} is {}, which checkpoints do not store; register "
                      "it with persistent=False",
                      name, c10::toString(buffer.scalar_type())));
  }
}

}  // namespace

std::vector<io::TensorSpec> specs_of(const Buffers& buffers) {
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, buffer] : buffers) {
    specs.push_back({name, type_of(name, buffer), buffer.sizes().vec()});
  }
  return specs;
}

void write_buffers(io::DirectoryWriter& writer, const FilePlan& plan, const Buffers& buffers) {
  for (const auto& [name, buffer] : buffers) {
    const at::Tensor here = buffer.detach().cpu().contiguous();
    const FilePlan::Position place = plan.find(name, 0);
    writer.write(*place.file, place.offset, bytes_of(here));
  }
}

void read_buffers(const std::filesystem::path& folder, const Buffers& buffers) {
  if (buffers.empty()) return;
  const at::NoGradGuard no_grad;
  const io::TensorDirectory files(folder);
  for (const auto& [name, buffer] : buffers) {
    if (!files.contains(name)) {
      throw ConfigError(fmt::format("{} has no buffer \"{}\": it is a checkpoint of another model",
                                    folder.string(), name));
    }
    const io::TensorDirectory::Tensor found = files.find(name);
    if (found.entry->type != type_of(name, buffer) || found.entry->shape != buffer.sizes().vec()) {
      throw ConfigError(
          fmt::format("{}: the buffer \"{}\" has shape [{}] and type {}, and in this "
                      "model shape [{}] and type {}",
                      folder.string(), name, fmt::join(found.entry->shape, ", "),
                      io::scalar_type_name(found.entry->type), fmt::join(buffer.sizes(), ", "),
                      io::scalar_type_name(type_of(name, buffer))));
    }
    const at::Tensor values = at::empty(buffer.sizes(), buffer.options().device(at::kCPU));
    found.file->read(*found.entry, 0, writable_bytes_of(values));
    buffer.copy_(values);
  }
}

}  // namespace colossal::checkpoint
