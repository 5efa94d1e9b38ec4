#include "colossal/cli/model_source.h"

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/checkpoint/gguf_conversion.h"

namespace colossal::cli {

bool is_gguf(const std::filesystem::path& path) {
  return path.extension() == ".gguf";
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
