#include "colossal/checkpoint/write_proof.h"

#include <array>
#include <functional>
#include <optional>

#include "colossal/base/error.h"
#include "colossal/base/machine.h"
#include "colossal/checkpoint/all_or_none.h"
#include "colossal/io/checkpoint_directory.h"

namespace colossal::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "ranks";
constexpr std::array<std::byte, 8> kPart{};  // what each rank writes

// Runs `work`. Reports its failure as a failure of `setting` on this host.
std::string attempt(const std::string& setting, const fs::path& folder,
                    const std::function<std::string()>& work) {
  try {
    return work();
  } catch (const IoError& error) {
    throw IoError(fmt::format("{} = \"{}\" cannot be written on host {}: {}", setting,
                              folder.string(), machine::host_name(), error.what()));
  }
}

void write_part(io::DirectoryWriter& writer, const comm::Group& group) {
  writer.write(kFile, group.rank() * std::ssize(kPart), kPart);
  writer.sync();
}

}  // namespace

void check_shared_writable(const std::string& setting, const fs::path& folder,
                           const comm::Group& group) {
  std::optional<io::DirectoryWriter> writer;  // removes what it made
  const std::string made = on_first_rank(group, [&] {
    return attempt(setting, folder, [&] {
      writer.emplace(io::DirectoryWriter::create(folder / "write-proof"));
      writer->create_file(kFile, group.size() * std::ssize(kPart));
      return writer->temporary_path().string() + '\n' + machine::host_name();
    });
  });
  const size_t separator = made.rfind('\n');
  const fs::path temporary = made.substr(0, separator);
  all_or_none(group, [&] {
    return attempt(setting, folder, [&]() -> std::string {
      if (!io::path_exists(temporary)) {
        throw IoError(fmt::format(
            "it is not the folder of that name on host {}, where rank 0 runs; all hosts must share "
            "the folder (a network file system), because each rank writes into it",
            made.substr(separator + 1)));
      }
      if (group.rank() != 0) writer.emplace(io::DirectoryWriter::join(temporary));
      write_part(*writer, group);
      return "";
    });
  });
}

void check_writable(const std::string& setting, const fs::path& folder, bool concerned,
                    const comm::Group& group) {
  all_or_none(group, [&] {
    return attempt(setting, folder, [&]() -> std::string {
      if (!concerned) return "";
      io::make_folders(folder);
      io::File file = io::File::create_unnamed(folder);
      file.write_at(kPart, 0);
      return "";
    });
  });
}

}  // namespace colossal::checkpoint
