#include "colossal/cli/model_source.h"

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/checkpoint/gguf_conversion.h"
#include "colossal/io/hub_cache.h"

namespace colossal::cli {

bool is_gguf(const std::filesystem::path& path) {
  return path.extension() == ".gguf";
}

void find_model_of(CLI::Option& option) {
  option.transform([](const std::string& given) { return io::find_model(given).string(); });
}

ModelSource::ModelSource(const std::string& given, const std::string& compute) : folder_(given) {
  const std::filesystem::path path = std::filesystem::weakly_canonical(folder_);
  name_ = io::hub_name_of(path);
  if (name_.empty()) name_ = path.filename().string();
  if (!is_gguf(path) || std::filesystem::is_directory(path)) return;
  if (!std::filesystem::exists(path)) throw ConfigError(fmt::format("{}: no such file", given));
  name_ = path.stem().string();
  temporary_.emplace();
  folder_ = (temporary_->path() / name_).string();
  log::info("reading {}", given);
  const bool is_wide = compute == "fp32" || compute == "fp64";
  checkpoint::gguf_to_hf(path, folder_, std::nullopt,
                         is_wide ? io::GgufType::f32 : io::GgufType::bf16);
}

}  // namespace colossal::cli
