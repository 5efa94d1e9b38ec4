// Checkpoints as directories that exist completely or not at all, even if a process is killed at
// any time.
//
// Several ranks (threads or processes that share a file system) write one directory. The caller
// provides their communication: "b" below is a barrier, "gather" collects the manifests on rank 0.
//
//   rank 0:      create("run/step-000100")         makes run/.step-000100.tmp-..., sends its path
//   the others:  join(temporary_path)
//   one rank:    create_file("model.safetensors", bytes)                   b
//   all:         write("model.safetensors", offset, data)...; sync()       gather written()
//   rank 0:      publish(sum of all manifests)     manifest, sync, rename, sync
//
// Every function throws IoError naming the path and the reason. A failure leaves an existing
// checkpoint unchanged.
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

// One rank's writer. Not thread-safe.
class DirectoryWriter {
 public:
  // Called by rank 0. Creates the parent folders. Throws IoError if final_path exists and is
  // neither an empty folder nor a directory written by this class, because publish() would replace
  // it.
  static DirectoryWriter create(const std::filesystem::path& final_path);
  static DirectoryWriter join(const std::filesystem::path& temporary_path);

  DirectoryWriter(DirectoryWriter&& other) noexcept;
  DirectoryWriter& operator=(DirectoryWriter&&) = delete;
  // In the creator, removes an unpublished directory; ranks that still write to it get an IoError.
  ~DirectoryWriter();

  const std::filesystem::path& temporary_path() const { return path_; }

  // Creates a file of `bytes` bytes, reserved on disk. name: may include folders: "a/b.json".
  void create_file(const std::string& name, int64_t bytes);
  // Writes to a file that any rank has created. Over all ranks, each byte must be written exactly
  // once.
  void write(const std::string& name, int64_t offset, std::span<const std::byte> data);
  // Creates and writes a whole file.
  void write_file(const std::string& name, std::string_view contents);
  // Syncs this rank's files to disk. written() is valid after that.
  void sync();
  const Manifest& written() const { return written_; }

  // Called by rank 0 after every rank's sync(). An existing final path is exchanged atomically (on
  // file systems without atomic exchange, it is first renamed to a hidden name that
  // list_checkpoints() recognizes). Throws InternalError if the manifest does not cover every byte
  // of every file. If the final sync throws IoError, the checkpoint is already visible, but may not
  // survive a power failure.
  void publish(Manifest manifest);
  void discard() noexcept;

 private:
  DirectoryWriter(std::filesystem::path path, std::optional<std::filesystem::path> final_path);
  void add_file(const std::string& name, File file);
  void write_manifest(const Manifest& manifest);
  void put_in_place();

  std::filesystem::path path_;
  std::optional<std::filesystem::path> final_path_;  // set only in the creator, until published
  FileDescriptor lock_;                              // holds a file lock that marks path_ as in use
  std::map<std::string, File> files_;
  Manifest written_;
};

// One fault of a checkpoint: a file that is missing or has another size or content than the
// manifest states. Files that are not in the manifest are ignored.
struct Damage {
  std::string file;
  int64_t offset = 0;  // of the first damaged range, or of the first missing byte
  std::string what;    // a message with path, offset and finding
};
enum class Verify {
  contents,  // reads every byte
  sizes,     // checks all sizes, but reads only files of up to 1 MiB
};
// Returns all faults; empty if there are none.
std::vector<Damage> verify_directory(const std::filesystem::path& path,
                                     Verify how = Verify::contents);

std::string checkpoint_name(int64_t step);  // 100: "step-000100"

struct Checkpoint {
  int64_t step = 0;
  std::filesystem::path path;
};
// Returns the checkpoints in a folder, oldest first; empty if the folder does not exist.
std::vector<Checkpoint> list_checkpoints(const std::filesystem::path& folder);

// Removes temporaries of dead writers, and completes a replacement that such a writer began.
// Directories in use by a live writer are kept.
void remove_stale_temporaries(const std::filesystem::path& folder);

// Considers only the checkpoints for which `counts` returns true: keeps the `keep` newest of these
// and removes the others. Renames a checkpoint to a hidden name before its removal, so that a
// partly removed directory is never taken for a checkpoint.
void prune(const std::filesystem::path& folder, int64_t keep,
           const std::function<bool(const Checkpoint&)>& counts);

// Renames a checkpoint to "step-000100.aside" (or "step-000100.aside-2", ...), which is no longer a
// checkpoint name, and returns the new path.
std::filesystem::path set_aside(const std::filesystem::path& checkpoint);

}  // namespace colossal::io
