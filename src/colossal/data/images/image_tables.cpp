#include "colossal/data/images/image_tables.h"

#include <algorithm>
#include <future>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/units.h"
#include "colossal/data/arrow_rows.h"
#include "colossal/data/images/class_names.h"
#include "colossal/data/images/fingerprint.h"
#include "colossal/data/images/image_row.h"
#include "colossal/data/images/packed_strings.h"
#include "colossal/data/json_line.h"

namespace colossal::data {
namespace {

// The image files of a row group.
using GroupImages = std::shared_ptr<const std::vector<std::string>>;

// Keeps the row groups that were read last, for sources that are read in order. Thread-safe.
class GroupCache {
 public:
  // Returns the images of row group `group`, by calling read() unless they are kept. Threads that
  // want the same group wait for the one that reads it.
  template <typename Read>
  GroupImages get(int64_t group, const Read& read) {
    std::promise<GroupImages> promise;
    std::shared_future<GroupImages> images;
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::ranges::find(kept_, group, &Kept::group);
      if (found != kept_.end()) {
        kept_.splice(kept_.begin(), kept_, found);
        images = found->images;
      } else {
        kept_.push_front({group, promise.get_future().share()});
        if (std::ssize(kept_) > kMostKept) kept_.pop_back();
      }
    }
    if (images.valid()) return images.get();
    try {
      auto read_images = std::make_shared<const std::vector<std::string>>(read());
      promise.set_value(read_images);
      return read_images;
    } catch (...) {
      promise.set_exception(std::current_exception());
      throw;
    }
  }

 private:
  static constexpr int64_t kMostKept = 4;
  struct Kept {
    int64_t group;
    std::shared_future<GroupImages> images;
  };

  std::mutex mutex_;
  std::list<Kept> kept_;  // the last used one first
};

class ImageTables : public ImageSource {
 public:
  ImageTables(std::span<const SourceFile> files, const ImageSourceOptions& options)
      : setting_(options.setting), files_(files.begin(), files.end()), names_(options.classes) {
    Fingerprint fingerprint;
    for (size_t i = 0; i < files_.size(); ++i) add_file(static_cast<int32_t>(i), fingerprint);
    if (texts_.size() == 0) {
      throw ConfigError(fmt::format("{}: '{}' has no rows", setting_, files_.front().path));
    }
    texts_.shrink_to_fit();
    classes_ = names_.finish();
    fingerprint_ = fingerprint.digits();
    warn_of_large_groups();
  }

  int64_t size() const override { return texts_.size(); }
  std::optional<int64_t> label(int64_t i) const override { return names_.label(i); }

  ImageSample read(int64_t i) const override {
    const auto after = std::ranges::upper_bound(groups_, i, {}, &Group::first_row);
    const auto index = after - groups_.begin() - 1;
    const Group& group = groups_[static_cast<size_t>(index)];
    const SourceFile& file = files_[static_cast<size_t>(group.file)];
    const GroupImages images = cache_.get(index, [&] { return read_group(group, file); });
    const int64_t row = i - group.first_row;
    const std::string name = fmt::format("{}, row {}", file.path, i - group.first_row_of_file + 1);
    if (row >= std::ssize(*images) || (*images)[static_cast<size_t>(row)].empty()) {
      throw IoError(fmt::format("'{}' has no image", name));
    }
    return {.content = (*images)[static_cast<size_t>(row)],
            .label = label(i),
            .text = std::string(texts_[i]),
            .name = name};
  }

 private:
  struct Group {
    int64_t first_row;          // of the source
    int64_t first_row_of_file;  // likewise, of the group's file
    int32_t file;
    int32_t number;  // in the file
  };

  static std::unique_ptr<ImageTable> open(const SourceFile& file) {
    auto table = open_image_table(file);
    if (!table) throw IoError(fmt::format("'{}' has lost its column of images", file.path));
    return table;
  }

  // Calls a function of a table, whose errors do not name the file.
  template <typename Function>
  static auto checked(const SourceFile& file, const Function& function) {
    try {
      return function();
    } catch (const Error&) {
      throw;
    } catch (const std::runtime_error& error) {
      throw IoError(fmt::format("cannot read '{}': {}", file.path, error.what()));
    }
  }

  static std::vector<std::string> read_group(const Group& group, const SourceFile& file) {
    return checked(file, [&] { return open(file)->read_images(group.number); });
  }

  void add_file(int32_t index, Fingerprint& fingerprint) {
    const SourceFile& file = files_[static_cast<size_t>(index)];
    const auto table = open(file);
    const int64_t first = texts_.size();
    for (std::string lines; checked(file, [&] { return table->read(lines); }); lines.clear()) {
      add_rows(lines, file, first, fingerprint);
    }
    int64_t row = first;
    int32_t number = 0;
    for (const ImageTable::RowGroup& group : table->row_groups()) {
      if (group.rows > 0) groups_.push_back({row, first, index, number});
      fingerprint.add(group.image_bytes);
      largest_group_ = std::max(largest_group_, group.image_bytes);
      row += group.rows;
      ++number;
    }
    if (row != texts_.size()) {
      throw IoError(fmt::format("'{}' is damaged: its row groups have {} rows, and {} were read",
                                file.path, row - first, texts_.size() - first));
    }
  }

  void add_rows(std::string_view lines, const SourceFile& file, int64_t first,
                Fingerprint& fingerprint) {
    while (!lines.empty()) {
      const size_t end = std::min(lines.find('\n'), lines.size());
      const std::string_view line = lines.substr(0, end);
      lines.remove_prefix(std::min(end + 1, lines.size()));
      const std::string where =
          fmt::format("{}: '{}' row {}", setting_, file.path, texts_.size() - first + 1);
      try {
        const ImageRow row = read_label_and_text(nlohmann::json::parse(line));
        names_.add(row.label, where);
        texts_.push_back(row.text);
      } catch (const InvalidLine& error) {
        throw ConfigError(fmt::format("{}: {}", where, error.what()));
      }
      fingerprint.add(line);
    }
  }

  void warn_of_large_groups() const {
    constexpr int64_t kLarge = int64_t{64} << 20;
    if (largest_group_ <= kLarge) return;
    log::warn(
        "{}: '{}' has row groups of up to {}, and to read an image its whole row group is read: "
        "write the file again with row_group_size=100, or the images to tar shards",
        setting_, files_.front().path, format_bytes(largest_group_));
  }

  std::string setting_;
  std::vector<SourceFile> files_;
  std::vector<Group> groups_;  // of all files, in the order of their rows
  PackedStrings texts_;
  ClassNames names_;
  int64_t largest_group_ = 0;  // bytes
  mutable GroupCache cache_;
};

}  // namespace

std::unique_ptr<ImageSource> open_image_tables(std::span<const SourceFile> files,
                                               const ImageSourceOptions& options) {
  return std::make_unique<ImageTables>(files, options);
}

bool has_image_column(const SourceFile& file) {
  return file.format == FileFormat::parquet && open_image_table(file) != nullptr;
}

}  // namespace colossal::data
