// Copies a checkpoint.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/io/checkpoint_directory.h"
#include "colossal/io/file.h"
#include "colossal/io/manifest.h"

namespace colossal::io {

void copy_checkpoint(const std::filesystem::path& from, const std::filesystem::path& final_path) {
  if (const std::vector<Damage> damage = verify_directory(from); !damage.empty()) {
    throw IoError(fmt::format("{} is damaged: {}", from.string(), damage.front().what));
  }
  const std::filesystem::path manifest_path = from / kManifestFile;
  const Manifest manifest = Manifest::parse(read_file(manifest_path), manifest_path.string());
  DirectoryWriter writer = DirectoryWriter::create(final_path);
  constexpr int64_t kBlock = int64_t{16} << 20;
  std::vector<std::byte> block(kBlock);
  for (const ManifestFile& file : manifest.files) {
    const File source = File::open_inside(from, file.name, OutsideLinks::refuse);
    writer.create_file(file.name, file.size);
    for (int64_t offset = 0; offset < file.size; offset += kBlock) {
      const std::span<std::byte> part(block.data(), std::min(kBlock, file.size - offset));
      source.read_at(part, offset);
      writer.write(file.name, offset, part);
    }
  }
  writer.sync();
  writer.publish(writer.written());
}

}  // namespace colossal::io
