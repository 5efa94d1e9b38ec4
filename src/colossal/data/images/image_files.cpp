#include "colossal/data/images/image_files.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/data/images/fingerprint.h"
#include "colossal/io/file.h"

namespace colossal::data {
namespace {

class ImageFiles final : public ImageSource {
 public:
  explicit ImageFiles(std::span<const std::string> paths) : paths_(paths.begin(), paths.end()) {
    Fingerprint fingerprint;
    for (const std::string& path : paths_) {
      std::error_code error;
      const auto bytes = std::filesystem::file_size(path, error);
      if (error) throw IoError(fmt::format("'{}': {}", path, error.message()));
      fingerprint.add(path);
      fingerprint.add(static_cast<int64_t>(bytes));
    }
    fingerprint_ = fingerprint.digits();
  }

  int64_t size() const override { return std::ssize(paths_); }
  std::optional<int64_t> label(int64_t) const override { return std::nullopt; }
  std::string name(int64_t i) const override { return paths_[static_cast<size_t>(i)]; }
  ImageSample read(int64_t i) const override {
    return {.content = io::read_file(name(i)), .label = {}, .text = "", .name = name(i)};
  }

 private:
  std::vector<std::string> paths_;
};

}  // namespace

std::unique_ptr<ImageSource> open_image_files(std::span<const std::string> paths) {
  return std::make_unique<ImageFiles>(paths);
}

}  // namespace colossal::data
