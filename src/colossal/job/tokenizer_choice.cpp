#include "colossal/job/tokenizer_choice.h"

#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/text/tokenizer/tokenizer_files.h"

namespace colossal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBytes = "bytes";
constexpr const char* kModel = "model";

// Returns the model's folder if it contains tokenizer.json, else "".
std::string own_tokenizer(const std::string& model_path) {
  std::error_code ignored;
  const bool has =
      !model_path.empty() && fs::exists(fs::path(model_path) / text::kTokenizerFile, ignored);
  return has ? model_path : "";
}

}  // namespace

std::string resolve_tokenizer(const RunConfig& config) {
  const std::string& folder = config.model.path;
  const std::string own = own_tokenizer(folder);
  const std::optional<std::string>& asked = config.data.tokenizer;
  if (asked && asked != kModel) return *asked;
  if (!own.empty()) return own;
  const std::vector<std::string> others =
      folder.empty() ? std::vector<std::string>() : text::list_tokenizer_files(folder);
  if (!asked && others.empty()) return kBytes;
  const std::string found =
      folder.empty() ? "a preset has no tokenizer"
                     : fmt::format("{} has no {}{}", folder, text::kTokenizerFile,
                                   others.empty() ? std::string()
                                                  : fmt::format(", only {}, which {} not supported",
                                                                fmt::join(others, ", "),
                                                                others.size() == 1 ? "is" : "are"));
  throw ConfigError(fmt::format(
      "{}: {}; {}set data.tokenizer to the path of a tokenizer.json, or to \"bytes\"",
      asked ? "data.tokenizer = \"model\"" : "data.tokenizer is left to the model", found,
      others.empty() ? ""
                     : "create one with transformers' AutoTokenizer and save_pretrained, or "));
}

std::string describe_tokenizer(const Job& job, const text::Tokenizer& tokenizer) {
  const std::string own = own_tokenizer(job.config.model.path);
  const std::array end{tokenizer.end_of_text()};
  return fmt::format("{}{}, {} tokens, a text ends with {} ({})", job.tokenizer,
                     !own.empty() && job.tokenizer == own ? ", the model's own" : "",
                     format_count(tokenizer.vocabulary_size()), end[0],
                     tokenizer.decode_continuation(end));
}

}  // namespace colossal
