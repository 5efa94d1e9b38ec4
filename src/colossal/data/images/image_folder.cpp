#include "colossal/data/images/image_folder.h"

#include <algorithm>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/data/images/class_names.h"
#include "colossal/data/images/fingerprint.h"
#include "colossal/data/images/packed_strings.h"
#include "colossal/io/file.h"
#include "colossal/io/json.h"

namespace colossal::data {
namespace fs = std::filesystem;
namespace {

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

fs::directory_iterator entries_of(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) io::raise_io_error(folder, "list the folder", error.value());
  return entries;
}

struct ImageFile {
  std::string folder;  // below that which was searched; empty, or ends in '/'
  std::string name;
  int64_t size;

  auto order() const { return std::tie(folder, name); }
};

// Finds the images of a folder and its subfolders.
class FoundImages {
 public:
  explicit FoundImages(const fs::path& path) : path_(path) {
    walk("", 0);
    std::ranges::sort(images_, {}, &ImageFile::order);
  }

  const std::vector<ImageFile>& images() const { return images_; }
  const std::vector<std::string>& others() const { return others_; }

 private:
  void walk(const std::string& below, int depth) {
    constexpr int kDeepest = 64;  // links may lead in a circle
    const fs::path folder = path_ / below;
    if (depth > kDeepest) {
      throw ConfigError(fmt::format("'{}' lies {} folders deep: does a link lead in a circle?",
                                    folder.string(), depth));
    }
    for (const fs::directory_entry& entry : entries_of(folder)) {
      const std::string name = entry.path().filename().string();
      if (is_hidden(entry.path())) continue;
      std::error_code unknown;
      if (entry.is_directory(unknown)) {
        walk(below + name + '/', depth + 1);
      } else if (!entry.is_regular_file(unknown) || !has_image_ending(name)) {
        others_.push_back(entry.path().string());
      } else {
        const auto size = entry.file_size(unknown);
        if (unknown) io::raise_io_error(entry.path(), "read the size", unknown.value());
        images_.push_back({below, name, static_cast<int64_t>(size)});
      }
    }
  }

  fs::path path_;
  std::vector<ImageFile> images_;
  std::vector<std::string> others_;
};

// Returns the names of the subfolders, sorted by bytes.
std::vector<std::string> subfolders(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    std::error_code unknown;
    if (!is_hidden(entry.path()) && entry.is_directory(unknown)) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

class ImageFolder : public ImageSource {
 public:
  ImageFolder(const fs::path& folder, const ImageSourceOptions& options)
      : folder_(folder), setting_(options.setting) {
    Fingerprint fingerprint;
    if (options.folder_has_classes) {
      add_classes(options.classes, fingerprint);
    } else {
      add_images("", FoundImages(folder), fingerprint);
      if (paths_.size() == 0) raise_without_images("the folder", folder);
    }
    paths_.shrink_to_fit();
    fingerprint_ = fingerprint.digits();
    warn_of_others();
  }

  int64_t size() const override { return paths_.size(); }

  std::optional<int64_t> label(int64_t i) const override {
    if (labels_.empty()) return std::nullopt;
    const auto after = std::ranges::upper_bound(begins_, i);
    return labels_[static_cast<size_t>(after - begins_.begin() - 1)];
  }

  std::string name(int64_t i) const override { return (folder_ / paths_[i]).string(); }

  ImageSample read(int64_t i) const override {
    const std::string path = name(i);
    return {.content = io::read_file(path), .label = label(i), .text = "", .name = path};
  }

 private:
  void add_classes(const std::vector<std::string>& wanted, Fingerprint& fingerprint) {
    const std::vector<std::string> names = subfolders(folder_);
    if (names.empty()) raise_without_classes();
    ClassNames classes(wanted);
    for (const std::string& name : names) {
      const fs::path path = folder_ / name;
      classes.add(Label(name), fmt::format("{}: '{}'", setting_, path.string()));
      begins_.push_back(paths_.size());
      add_images(name + '/', FoundImages(path), fingerprint);
      if (paths_.size() == begins_.back()) raise_without_images("the class", path);
    }
    classes_ = classes.finish();
    for (size_t i = 0; i < names.size(); ++i) {
      labels_.push_back(*classes.label(static_cast<int64_t>(i)));
    }
  }

  // below: where they were found in folder_; empty, or ends in '/'.
  void add_images(const std::string& below, const FoundImages& found, Fingerprint& fingerprint) {
    for (const ImageFile& image : found.images()) {
      paths_.push_back(below + image.folder + image.name);
      fingerprint.add(paths_[paths_.size() - 1]);
      fingerprint.add(image.size);
    }
    num_others_ += std::ssize(found.others());
    if (first_other_.empty() && !found.others().empty()) first_other_ = found.others().front();
  }

  [[noreturn]] void raise_without_images(const char* what, const fs::path& path) const {
    throw ConfigError(
        fmt::format("{}: {} '{}' has no images: add .jpg, .jpeg, .png or .webp files, or remove it",
                    setting_, what, path.string()));
  }

  [[noreturn]] void raise_without_classes() const {
    throw ConfigError(fmt::format(
        "{}: '{}' has no subfolders, and a folder of images has one for each class, such as "
        "'{}/cat' and '{}/dog'; or give rows or shards, such as '{}/*.jsonl' or '{}/*.tar'",
        setting_, folder_.string(), folder_.string(), folder_.string(), folder_.string(),
        folder_.string()));
  }

  void warn_of_others() const {
    if (num_others_ == 0) return;
    log::warn("{}: '{}'{} is left out, because its name ends as that of no image", setting_,
              first_other_,
              num_others_ > 1 ? fmt::format(" (and {} other files)", num_others_ - 1) : "");
  }

  fs::path folder_;
  std::string setting_;
  PackedStrings paths_;          // within folder_; class after class
  std::vector<int64_t> begins_;  // first image of each class with a subfolder
  std::vector<int64_t> labels_;  // of each class with a subfolder
  int64_t num_others_ = 0;
  std::string first_other_;
};

}  // namespace

bool has_image_ending(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(std::array{".jpg", ".jpeg", ".png", ".webp"},
                             [&](const char* ending) { return lower.ends_with(ending); });
}

std::unique_ptr<ImageSource> open_image_folder(const fs::path& folder,
                                               const ImageSourceOptions& options) {
  return std::make_unique<ImageFolder>(folder, options);
}

}  // namespace colossal::data
