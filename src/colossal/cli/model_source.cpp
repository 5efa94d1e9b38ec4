#include "colossal/cli/model_source.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/checkpoint/gguf_conversion.h"

namespace colossal::cli {

bool is_gguf(const std::filesystem::path& path) {
  return path.extension() == ".gguf";
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "colossal-XXXXXX").string();
  if (!mkdtemp(pattern.data())) {
    throw IoError(fmt::format("{}: {}", pattern, std::strerror(errno)));
  }
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ModelSource::ModelSource(const std::string& given) : folder_(given) {
  const std::filesystem::path path = std::filesystem::weakly_canonical(given);
  name_ = path.filename().string();
  if (!is_gguf(path) || std::filesystem::is_directory(path)) return;
  if (!std::filesystem::exists(path)) throw ConfigError(fmt::format("{}: no such file", given));
  name_ = path.stem().string();
  temporary_.emplace();
  folder_ = (temporary_->path() / name_).string();
  log::info("reading {}", given);
  checkpoint::gguf_to_hf(path, folder_, std::nullopt);
}

}  // namespace colossal::cli
