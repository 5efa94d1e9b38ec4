#include "colossal/text/tokenizer.h"

#include <system_error>

#include "colossal/text/bytes_tokenizer.h"
#include "colossal/text/pipeline_tokenizer.h"

namespace colossal::text {

InvalidText::InvalidText(int64_t offset)
    : Error(fmt::format("the text is not UTF-8: the byte at offset {} does not start a character",
                        offset)),
      offset(offset) {}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& specification) {
  if (specification == "bytes") return std::make_unique<BytesTokenizer>();
  std::filesystem::path path = specification;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path /= kTokenizerFile;
  if (!std::filesystem::exists(path, error)) {
    throw IoError(
        fmt::format("the tokenizer {} does not exist; give \"bytes\", the path of a "
                    "tokenizer.json, or a folder with one",
                    path.string()));
  }
  TokenizerFiles files = read_tokenizer_files(path);
  if (BytesTokenizer::is_described_by(files)) {
    return std::make_unique<BytesTokenizer>(std::move(files));
  }
  return std::make_unique<PipelineTokenizer>(path, std::move(files));
}

}  // namespace colossal::text
