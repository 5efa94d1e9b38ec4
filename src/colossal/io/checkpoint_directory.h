// Checkpoints as directories that exist completely or not at all, even if a process is killed at
// any time.
//
// Several ranks (threads or processes that share a file system) write one directory. The caller
// provides their communication: below, (broadcast) sends the temporary path to all ranks, (barrier)
// waits for all ranks, and (gather) collects the manifests on rank 0.
//
//   rank 0:       create("run/step-000100")   makes run/.step-000100.tmp-...        (broadcast)
//   other ranks:  join(temporary_path)
//   one rank:     create_file("model.safetensors", bytes)                           (barrier)
//   all ranks:    write("model.safetensors", offset, data)...; sync(); written()    (gather)
//   rank 0:       publish(sum of all manifests)   writes the manifest, syncs, renames, syncs
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
  // Called by rank 0. Creates the temporary directory and the parent folders. Throws IoError if
  // final_path exists, unless it is an empty folder or has a manifest: publish() will replace it.
  static DirectoryWriter create(const std::filesystem::path& final_path);
  // Called by the other ranks, with temporary_path() of rank 0.
  static DirectoryWriter join(const std::filesystem::path& temporary_path);

  DirectoryWriter(DirectoryWriter&& other) noexcept;
  DirectoryWriter& operator=(DirectoryWriter&&) = delete;
  ~DirectoryWriter();  // discard()

  const std::filesystem::path& temporary_path() const { return path_; }

  // Creates a file of `bytes` bytes and reserves its space on disk. name: may include folders:
  // "a/b.json".
  void create_file(const std::string& name, int64_t bytes);
  // Writes to a file that any rank has created. Over all ranks, each byte must be written exactly
  // once.
  void write(const std::string& name, int64_t offset, std::span<const std::byte> data);
  // Creates and writes a whole file.
  void write_file(const std::string& name, std::string_view contents);
  // Syncs the files that this rank has created or written to disk, and closes them.
  void sync();
  const Manifest& written() const { return written_; }  // the ranges that this rank has written

  // Called by rank 0 after every rank's sync(). manifest: the sum of all ranks' written(). Renames
  // the directory to the final path. An existing final path is replaced atomically. (On file
  // systems without atomic exchange, it is first renamed to a hidden name that list_checkpoints()
  // recognizes.) Throws InternalError if the manifest does not cover every byte of every file. If
  // the last sync throws IoError, the checkpoint is already visible, but may not survive a power
  // failure.
  void publish(Manifest manifest);
  // On rank 0, removes the directory unless it is published; ranks that still write to it get an
  // IoError. Does nothing on the other ranks.
  void discard() noexcept;

 private:
  DirectoryWriter(std::filesystem::path path, std::optional<std::filesystem::path> final_path);
  void add_file(const std::string& name, File file);
  void write_manifest(const Manifest& manifest);
  void put_in_place();

  std::filesystem::path path_;
  std::optional<std::filesystem::path> final_path_;  // set only on rank 0, until published
  FileDescriptor lock_;                              // holds a file lock that marks path_ as in use
  std::map<std::string, File> files_;
  Manifest written_;
};

// One fault of a checkpoint: a file that is missing or has a size or content that differs from the
// manifest, or the manifest itself if it is missing or invalid. Files that are not in the manifest
// are ignored.
struct Damage {
  std::string file;
  int64_t offset = 0;  // of a damaged range, or of the first missing or additional byte; else 0
  std::string what;    // a message with the path and what is wrong
};
enum class Verify {
  contents,  // reads every byte
  sizes,     // checks all sizes, but reads the contents only of files of up to 1 MiB
};
// Returns all faults; empty if there are none.
std::vector<Damage> verify_directory(const std::filesystem::path& path,
                                     Verify how = Verify::contents);

std::string checkpoint_name(int64_t step);  // "step-000100" for step 100

struct Checkpoint {
  int64_t step = 0;
  std::filesystem::path path;
};
// Returns the checkpoints in a folder in ascending order of steps; empty if the folder does not
// exist. Looks only at names: checkpoint_name(), or the hidden name of a checkpoint that was being
// replaced.
std::vector<Checkpoint> list_checkpoints(const std::filesystem::path& folder);

// Cleans up after killed processes: removes files and directories with hidden names
// (hidden_sibling.h), and renames a replaced checkpoint back if its successor is missing. Keeps
// directories that a live DirectoryWriter has locked; call it while no process writes other files
// in the folder.
void remove_stale_temporaries(const std::filesystem::path& folder);

// Of the checkpoints for which `counts` returns true, keeps the `keep` (>= 1) with the highest
// steps and removes the rest. Never removes a checkpoint for which `counts` returns false. Renames
// a checkpoint to a hidden name before its removal, so that a partly removed directory is never
// taken for a checkpoint.
void prune(const std::filesystem::path& folder, int64_t keep,
           const std::function<bool(const Checkpoint&)>& counts);

// Renames a checkpoint to "step-000100.aside" (or "step-000100.aside-2", ...), which is no longer a
// checkpoint name, and returns the new path.
std::filesystem::path set_aside(const std::filesystem::path& checkpoint);

}  // namespace colossal::io
