// Checkpoints as directories that are there whole or not at all, whenever a process dies.
//
// Several ranks (threads or processes that share a file system) write one directory. They talk to
// each other outside: "b" below is a barrier, "gather" brings the manifests to rank 0.
//
//   rank 0:      create("run/step-000100")         makes run/.step-000100.tmp-..., tells its path
//   the others:  join(temporary_path)
//   one rank:    create_file("model.safetensors", bytes)                   b
//   all:         write("model.safetensors", offset, data)...; sync()       gather written()
//   rank 0:      publish(sum of all manifests)     manifest, sync, rename, sync
//
// Every function throws IoError naming the path and the reason. A failure leaves what was there
// before untouched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/base/file_descriptor.h"
#include "colossal/io/file.h"
#include "colossal/io/manifest.h"

namespace colossal::io {

// One rank's hand on the directory; not for several threads at once.
class DirectoryWriter {
 public:
  // Rank 0. Folders above are made. Refuses a path at which stands something other than an empty
  // folder or a directory written by this class: publishing would replace it.
  static DirectoryWriter create(const std::filesystem::path& final_path);
  static DirectoryWriter join(const std::filesystem::path& temporary_path);

  DirectoryWriter(DirectoryWriter&& other) noexcept;
  DirectoryWriter& operator=(DirectoryWriter&&) = delete;
  ~DirectoryWriter();  // discards what create() made and publish() did not rename; ranks that still
                       // write into it then fail with an IoError

  const std::filesystem::path& temporary_path() const { return path_; }

  // A new file of `bytes` bytes, reserved on the disk. `name` may have folders: "a/b.json".
  void create_file(const std::string& name, int64_t bytes);
  // Writes into a file that some rank has created. Each byte of a file must be written exactly
  // once.
  void write(const std::string& name, int64_t offset, std::span<const std::byte> data);
  // A whole file by one rank.
  void write_file(const std::string& name, std::string_view contents);
  // Brings to the disk what this rank wrote. After it, written() is true.
  void sync();
  const Manifest& written() const { return written_; }

  // Rank 0, after every rank's sync(). Where the final path exists it is exchanged in one step (on
  // file systems without such a step: renamed to a hidden name that list_checkpoints() knows).
  // Throws InternalError when the manifest does not cover every byte of every file. An IoError from
  // the very last sync comes when the directory is visible already, but may not survive a power
  // cut.
  void publish(Manifest manifest);
  void discard() noexcept;

 private:
  DirectoryWriter(std::filesystem::path path, std::optional<std::filesystem::path> final_path);
  void add_file(const std::string& name, File file);
  void write_manifest(const Manifest& manifest);
  void put_in_place();

  std::filesystem::path path_;
  std::optional<std::filesystem::path> final_path_;  // while this is the creator's, unpublished
  FileDescriptor lock_;                              // its lock says that path_ is in use
  std::map<std::string, File> files_;
  Manifest written_;
};

// One fault of a directory that DirectoryWriter wrote: a file that is missing, has another size, or
// other bytes. Files that the manifest does not name are left alone.
struct Damage {
  std::string file;
  int64_t offset = 0;  // of the first range or byte concerned
  std::string what;    // a sentence with path, offset and what was found
};
enum class Verify {
  contents,  // reads every byte
  sizes,     // reads files of up to 1 MiB alone, and looks at the sizes of the others
};
// Returns what is damaged; empty: nothing.
std::vector<Damage> verify_directory(const std::filesystem::path& path,
                                     Verify how = Verify::contents);

std::string checkpoint_name(int64_t step);  // 100: "step-000100"

struct Checkpoint {
  int64_t step = 0;
  std::filesystem::path path;
};
// The checkpoints of a folder, oldest first; none where there is no such folder.
std::vector<Checkpoint> list_checkpoints(const std::filesystem::path& folder);

// Removes what dead writers left and finishes a replacement that one of them began. Directories
// that a living writer holds stay.
void remove_stale_temporaries(const std::filesystem::path& folder);

// Removes all but the `keep` newest of the checkpoints for which `counts` is true; the others stay,
// whatever their steps. Each loses its name first, so that a half-removed one is never taken for a
// checkpoint.
void prune(const std::filesystem::path& folder, int64_t keep,
           const std::function<bool(const Checkpoint&)>& counts);

// Gives the directory a name beside its own that is no checkpoint's, "step-000100.aside", and
// returns it.
std::filesystem::path set_aside(const std::filesystem::path& checkpoint);

}  // namespace colossal::io
