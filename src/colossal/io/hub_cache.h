// Finds models in the local cache of the Hugging Face Hub, which `hf download NAME` and
// transformers' from_pretrained() fill:
//
//   CACHE/models--Qwen--Qwen3-8B/refs/main                     the newest commit: "b968826..."
//   CACHE/models--Qwen--Qwen3-8B/snapshots/b968826.../FILE     a link to ../../blobs/HASH
//   CACHE/models--Qwen--Qwen3-8B/blobs/HASH                    the contents of files
//
// Nothing is downloaded.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace colossal::io {

// Returns the folder of the cache: $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub,
// $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub; the first whose variable is set. It
// may not exist.
std::filesystem::path hub_cache();

// Returns where the model or adapter `given` is: `given` itself if that is a path that exists, or
// if it cannot be a name of the Hub; else the folder of the newest snapshot in the cache, for a
// name such as "Qwen/Qwen3-8B", or of the snapshot of a branch, tag or commit, for
// "Qwen/Qwen3-8B@v1.0". Throws ConfigError if there is no such snapshot; the message has the
// command that downloads it.
std::filesystem::path find_model(const std::string& given);

// Returns the folder of the cache, such as CACHE/models--Qwen--Qwen3-8B, to which a folder of a
// snapshot belongs; nullopt if `folder` is not in a snapshot. Links in its files may lead to
// anywhere in the folder that is returned.
std::optional<std::filesystem::path> hub_repository_of(const std::filesystem::path& folder);

// Returns the name on the Hub of the model in a snapshot: "Qwen/Qwen3-8B". Returns "" for other
// folders.
std::string hub_name_of(const std::filesystem::path& folder);

}  // namespace colossal::io
