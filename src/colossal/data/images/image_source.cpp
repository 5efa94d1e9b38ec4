#include "colossal/data/images/image_source.h"

#include <algorithm>
#include <filesystem>

#include "colossal/base/error.h"
#include "colossal/data/images/braces.h"
#include "colossal/data/images/image_files.h"
#include "colossal/data/images/image_folder.h"
#include "colossal/data/images/image_rows.h"
#include "colossal/data/images/image_shards.h"
#include "colossal/data/images/image_tables.h"
#include "colossal/data/source_files.h"

namespace colossal::data {
namespace {

bool names_folder(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown);
}

// Files of names that say nothing are not taken for rows.
void require_rows(const SourceFile& file, const std::string& setting) {
  if (holds_rows(file.format) && format_of_name(file.path) != FileFormat::by_name) return;
  throw ConfigError(fmt::format(
      "{}: '{}' is no source of images: give a folder with one subfolder for each class, files "
      "with rows, such as .jsonl, tar shards, or images",
      setting, file.path));
}

std::unique_ptr<ImageSource> open_rows_or_tables(std::span<const SourceFile> files,
                                                 const ImageSourceOptions& options) {
  const auto tables = std::ranges::count_if(files, has_image_column);
  if (tables == 0) return open_image_rows(files, options);
  if (tables == std::ssize(files)) return open_image_tables(files, options);
  throw ConfigError(fmt::format(
      "{}: Parquet files with a column of images and other files, such as '{}', cannot be mixed",
      options.setting, std::ranges::find_if_not(files, has_image_column)->path));
}

bool is_shard(const SourceFile& file) {
  return file.path.ends_with(".tar") || file.path.ends_with(".tar.gz") ||
         file.path.ends_with(".tgz");
}

}  // namespace

std::unique_ptr<ImageSource> open_image_source(std::span<const std::string> patterns,
                                               const ImageSourceOptions& options) {
  const std::string& setting = options.setting;
  if (std::ranges::any_of(patterns, names_folder)) {
    if (patterns.size() == 1) return open_image_folder(patterns[0], options);
    throw ConfigError(fmt::format(
        "{}: of folders of images one can be given, and nothing beside it; {} patterns were",
        setting, patterns.size()));
  }
  std::vector<std::string> expanded;
  for (const std::string& pattern : patterns) {
    for (std::string& each : expand_braces(pattern)) expanded.push_back(std::move(each));
  }
  // Not by_name: archives are refused as texts, but not here.
  std::vector<SourceFile> files =
      find_source_files(expanded, setting, {.format = FileFormat::jsonl});
  std::vector<std::string> paths;
  for (const SourceFile& file : files) paths.push_back(file.path);
  if (std::ranges::all_of(paths, has_image_ending)) return open_image_files(paths);
  const auto shards = std::ranges::count_if(files, is_shard);
  if (shards == 0) {
    for (SourceFile& file : files) {
      file.format = format_of_name(file.path);
      if (file.format == FileFormat::by_name) file.format = FileFormat::text;
      require_rows(file, setting);
    }
    return open_rows_or_tables(files, options);
  }
  if (shards < std::ssize(files)) {
    throw ConfigError(fmt::format("{}: tar shards and other files, such as '{}', cannot be mixed",
                                  setting, std::ranges::find_if_not(files, is_shard)->path));
  }
  return open_image_shards(paths, options);
}

}  // namespace colossal::data
