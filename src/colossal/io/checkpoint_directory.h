// Writes checkpoints as directories that exist completely or not at all, even if a process is
// killed at any time; also verifies, lists and removes checkpoints.
//
// The ranks of a job (threads or processes that share a file system) write one directory together,
// under a temporary name. DirectoryWriter does not communicate; the caller does so between these
// calls:
//
//   rank 0        create("run/step-000100")    makes run/.step-000100.tmp-...
//                 - the caller broadcasts temporary_path() from rank 0
//   other ranks   join(temporary_path)
//   one rank      create_file("model.safetensors", bytes)    for each file
//                 - the caller waits for all ranks (barrier)
//   all ranks     write("model.safetensors", offset, data)...; sync()
//                 - the caller gathers all ranks' written() on rank 0
//   rank 0        publish(sum of all written())    writes the manifest, syncs, renames, syncs
//
// All functions throw IoError with the path and the reason if the file system reports an error. An
// existing checkpoint then stays unchanged, unless publish() had already replaced it: see there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/base/file_descriptor.h"
#include "colossal/io/file.h"
#include "colossal/io/manifest.h"

namespace colossal::io {

// Writes one rank's part of a checkpoint. Not thread-safe.
class DirectoryWriter {
 public:
  // Called by rank 0. Creates the temporary directory and missing parent folders. publish() will
  // replace `final_path` if it is an empty folder or a checkpoint, that is, has a manifest. Throws
  // IoError if anything else exists at `final_path`.
  static DirectoryWriter create(const std::filesystem::path& final_path);
  // Called by the other ranks, with temporary_path() of rank 0.
  static DirectoryWriter join(const std::filesystem::path& temporary_path);

  DirectoryWriter(DirectoryWriter&& other) noexcept;
  DirectoryWriter& operator=(DirectoryWriter&&) = delete;
  ~DirectoryWriter();  // calls discard()

  const std::filesystem::path& temporary_path() const { return path_; }

  // Creates a file of `bytes` bytes and reserves its space on disk. name: relative to the
  // directory, possibly in a folder, as in "a/b.json". Throws InternalError unless
  // is_plain_relative_name(name) (manifest.h), or if it is kManifestFile.
  void create_file(const std::string& name, int64_t bytes);
  // Writes `data` at byte `offset` of a file that any rank has created. The ranks together must
  // write each byte of each file exactly once.
  void write(const std::string& name, int64_t offset, std::span<const std::byte> data);
  // Creates and writes a whole file.
  void write_file(const std::string& name, std::string_view contents);
  // Syncs to disk all files that this rank has created or written, and closes them.
  void sync();
  // Returns the ranges that this rank has written, and their checksums.
  const Manifest& written() const { return written_; }

  // Called by rank 0 after every rank's sync(): writes the manifest and renames the directory to
  // the final path. manifest: the sum (Manifest::add()) of all ranks' written(). Replaces an
  // existing checkpoint atomically. On file systems without atomic exchange, it first renames the
  // existing checkpoint to a hidden name that list_checkpoints() knows. Throws InternalError if the
  // manifest does not cover exactly the bytes of all files. If the sync after the renaming throws
  // IoError, the new checkpoint is at the final path, but may not survive a power failure.
  void publish(Manifest manifest);
  // On rank 0, removes the directory with the files of all ranks, unless it is published. Does
  // nothing on the other ranks.
  void discard() noexcept;

 private:
  DirectoryWriter(std::filesystem::path path, std::optional<std::filesystem::path> final_path);
  // Adds an open file to files_ and written_.
  void add_file(const std::string& name, File file);
  void write_manifest(const Manifest& manifest);
  // Renames path_ to *final_path_.
  void put_in_place();

  std::filesystem::path path_;                       // the temporary directory
  std::optional<std::filesystem::path> final_path_;  // set only on rank 0, until published
  FileDescriptor lock_;                              // holds a file lock that marks path_ as in use
  std::map<std::string, File> files_;                // open files, by name
  Manifest written_;
};

// A fault of a checkpoint: a file of the manifest that is missing or whose size or contents differ
// from the manifest; or the manifest itself, if it is missing or invalid.
struct Damage {
  std::string file;    // name in the manifest, or kManifestFile
  int64_t offset = 0;  // of the damaged range, or of the first missing or additional byte; else 0
  std::string what;    // error message with the path
};
// How thoroughly verify_directory() checks.
enum class Verify {
  contents,  // reads every byte
  sizes,     // checks the sizes of all files, but reads only files of up to 1 MiB
};
// Compares a checkpoint with its manifest. Returns all faults; empty if there are none. Ignores
// files that are not in the manifest.
std::vector<Damage> verify_directory(const std::filesystem::path& path,
                                     Verify how = Verify::contents);

std::string checkpoint_name(int64_t step);  // "step-000100" for step 100

struct Checkpoint {
  int64_t step = 0;
  std::filesystem::path path;
};
// Returns the checkpoints in a folder, in ascending order of their steps; empty if the folder does
// not exist. Finds directories by their names alone: those of checkpoint_name(), and the hidden
// names of checkpoints that were being replaced (HiddenKind::replaced). If a step has both, returns
// only the one of checkpoint_name().
std::vector<Checkpoint> list_checkpoints(const std::filesystem::path& folder);

// Copies the checkpoint `from` to `final_path`, completely or not at all, as DirectoryWriter writes
// checkpoints. Throws IoError if `from` is damaged.
void copy_checkpoint(const std::filesystem::path& from, const std::filesystem::path& final_path);

// Cleans up after killed processes: removes the files and directories in the folder that have
// hidden names (hidden_sibling.h), with two exceptions. A directory that a live DirectoryWriter has
// locked stays. A replaced checkpoint whose successor is missing is renamed back. Call this only
// while no process writes anything else under a hidden name in the folder, for example by
// write_file_atomically() (file.h): that would be removed, too.
void remove_stale_temporaries(const std::filesystem::path& folder);

// Removes old checkpoints in a folder and returns their paths. Among the checkpoints for which
// `counts` returns true, keeps the `keep` (at least 1) with the highest steps and those of the
// steps `also`, and removes all others. Keeps all checkpoints for which `counts` returns false.
// Renames a checkpoint to a hidden name before it removes it, so that a partly removed directory is
// not taken for a checkpoint.
std::vector<std::filesystem::path> prune(const std::filesystem::path& folder, int64_t keep,
                                         const std::set<int64_t>& also,
                                         const std::function<bool(const Checkpoint&)>& counts);

// Renames a checkpoint to "step-000100.aside" (or "step-000100.aside-2", ... if the name is taken)
// and returns the new path. list_checkpoints() no longer finds it.
std::filesystem::path set_aside(const std::filesystem::path& checkpoint);

}  // namespace colossal::io
