#include "colossal/io/hub_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/io/file.h"

namespace colossal::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModels = "models--";
constexpr std::string_view kSeparator = "--";  // in names of folders, for the slash in names

std::string environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

fs::path without_tilde(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return environment("HOME") + path.substr(1);
}

// Name and revision of a model on the Hub.
struct HubModel {
  std::string name;
  std::string revision;  // a branch, tag or commit

  fs::path folder() const {
    std::string folder = name;
    const size_t slash = folder.find('/');
    if (slash != std::string::npos) folder.replace(slash, 1, kSeparator);
    return hub_cache() / (std::string(kModels) + folder);
  }
};

bool is_of_names(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

// Returns whether the Hub may have a model of this name: "gpt2", "Qwen/Qwen3-8B".
bool is_name(std::string_view text) {
  const size_t slash = text.find('/');
  const auto is_part = [](std::string_view part) {
    return !part.empty() && part.front() != '.' && part.front() != '-' && part.back() != '.' &&
           std::ranges::all_of(part, is_of_names) && part.find("..") == part.npos &&
           part.find(kSeparator) == part.npos;
  };
  if (text.ends_with(".gguf")) return false;
  if (slash == text.npos) return is_part(text);
  return is_part(text.substr(0, slash)) && is_part(text.substr(slash + 1));
}

std::optional<HubModel> read_name(const std::string& given) {
  const size_t at = given.find('@');
  const std::string revision = at == std::string::npos ? "main" : given.substr(at + 1);
  HubModel model{.name = given.substr(0, at), .revision = revision};
  const bool plain =
      !revision.empty() && revision.front() != '/' && revision.find("..") == std::string::npos &&
      std::ranges::all_of(revision, [](char c) { return is_of_names(c) || c == '/'; });
  if (!plain || !is_name(model.name)) return std::nullopt;
  return model;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;  // the folder may not exist
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// Returns the folder of the model's snapshot; an empty path if the cache has none.
fs::path find_snapshot(const HubModel& model) {
  constexpr int64_t kLargestReference = 1024;
  const fs::path folder = model.folder();
  std::string commit = model.revision;
  const fs::path reference = folder / "refs" / model.revision;
  std::error_code error;
  if (fs::is_regular_file(reference, error)) {
    commit = trimmed(read_file(reference, kLargestReference));
    if (!std::ranges::all_of(commit, is_of_names)) return {};
  }
  const fs::path snapshot = folder / "snapshots" / commit;
  return !commit.empty() && fs::is_directory(snapshot, error) ? snapshot : fs::path();
}

[[noreturn]] void raise_missing(const std::string& given, const HubModel& model) {
  const std::vector<std::string> others = names_in(model.folder() / "snapshots");
  const bool is_main = model.revision == "main";
  throw ConfigError(
      fmt::format("{}: no such folder, and the Hugging Face cache ({}) does not have {}{}{}; to "
                  "download it: hf "
                  "download {}{}",
                  given, hub_cache().string(),
                  is_main && others.empty() ? "a model of this name"
                                            : fmt::format("its revision {}", model.revision),
                  others.empty() ? "" : ", only ",
                  others.empty() ? "" : fmt::format("{}", fmt::join(others, ", ")), model.name,
                  is_main ? "" : fmt::format(" --revision {}", model.revision)));
}

}  // namespace

fs::path hub_cache() {
  for (const char* variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    const std::string folder = environment(variable);
    if (!folder.empty()) return without_tilde(folder);
  }
  const std::string home = environment("HF_HOME");
  if (!home.empty()) return without_tilde(home) / "hub";
  const std::string caches = environment("XDG_CACHE_HOME");
  return (caches.empty() ? without_tilde("~/.cache") : without_tilde(caches)) / "huggingface" /
         "hub";
}

fs::path find_model(const std::string& given) {
  std::error_code error;
  if (given.empty() || fs::exists(given, error)) return given;
  const std::optional<HubModel> model = read_name(given);
  if (!model) return given;
  const fs::path snapshot = find_snapshot(*model);
  if (snapshot.empty()) raise_missing(given, *model);
  return snapshot;
}

std::optional<fs::path> hub_repository_of(const fs::path& folder) {
  std::error_code error;
  fs::path at = fs::canonical(folder, error);
  if (error) return std::nullopt;
  for (; at.has_relative_path(); at = at.parent_path()) {
    const fs::path snapshots = at.parent_path();
    if (snapshots.filename() != "snapshots") continue;
    const fs::path repository = snapshots.parent_path();
    if (!repository.filename().string().starts_with(kModels)) continue;
    if (fs::is_directory(repository / "blobs", error)) return repository;
  }
  return std::nullopt;
}

std::string hub_name_of(const fs::path& folder) {
  const std::optional<fs::path> repository = hub_repository_of(folder);
  if (!repository) return "";
  std::string name = repository->filename().string().substr(kModels.size());
  const size_t separator = name.find(kSeparator);
  if (separator != std::string::npos) name.replace(separator, kSeparator.size(), "/");
  return name;
}

}  // namespace colossal::io
