// checkpoint_worker DIRECTORY STEP FILL KEEP: does what a job does around a save, for tests that
// kill it or let its file operations fail. Two ranks write a shard with bytes FILL. If the save
// fails, prints the message and ends with exit code 1.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "colossal/io/checkpoint_directory.h"

namespace {

using colossal::io::DirectoryWriter;

constexpr int64_t kHalf = 3000;

void write_half(DirectoryWriter& writer, int64_t rank, char fill) {
  const std::vector<char> data(kHalf / 2, fill);
  for (int64_t part = 0; part < 2; ++part) {
    writer.write("model.safetensors", rank * kHalf + part * kHalf / 2,
                 std::as_bytes(std::span(data)));
  }
}

void save(const std::filesystem::path& path, char fill) {
  DirectoryWriter first = DirectoryWriter::create(path);
  DirectoryWriter second = DirectoryWriter::join(first.temporary_path());
  first.create_file("model.safetensors", 2 * kHalf);
  write_half(second, 1, fill);
  write_half(first, 0, fill);
  first.write_file("config.json", std::string(10, fill));
  second.write_file("training_state/state.json", std::string(20, fill));
  first.sync();
  second.sync();
  colossal::io::Manifest manifest = first.written();
  manifest.add(second.written());
  first.publish(std::move(manifest));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const std::filesystem::path folder = arguments[1];
  try {
    colossal::io::remove_stale_temporaries(folder);
    save(folder / colossal::io::checkpoint_name(std::stoll(arguments[2])), arguments[3][0]);
    colossal::io::prune(folder, std::stoll(arguments[4]), {}, [](const auto&) { return true; });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
