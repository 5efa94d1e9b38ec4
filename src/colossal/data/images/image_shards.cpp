#include "colossal/data/images/image_shards.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/data/images/class_names.h"
#include "colossal/data/images/fingerprint.h"
#include "colossal/data/images/image_folder.h"
#include "colossal/data/images/image_row.h"
#include "colossal/data/images/packed_strings.h"
#include "colossal/data/images/tar_file.h"
#include "colossal/data/json_line.h"
#include "colossal/io/file.h"
#include "colossal/io/json.h"

namespace colossal::data {
namespace {

// Bytes of an archive.
struct Extent {
  int64_t offset = 0;
  int64_t size = 0;
};

constexpr int64_t kLargestText = int64_t{1} << 20;

std::string read_extent(const io::File& archive, Extent extent) {
  std::string bytes(static_cast<size_t>(extent.size), '\0');
  archive.read_at(std::as_writable_bytes(std::span(bytes)), extent.offset);
  return bytes;
}

std::string_view without_blanks(std::string_view text) {
  constexpr auto kBlanks = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// The name of a member up to the first dot after its folders, which all files of a sample share;
// and the rest, in lower case.
struct SampleName {
  std::string key;
  std::string ending;

  explicit SampleName(const std::string& member) {
    const size_t slash = member.rfind('/');
    const size_t begin = slash == std::string::npos ? 0 : slash + 1;
    const size_t dot = std::min(member.find('.', begin), member.size());
    key = member.substr(0, dot);
    ending = member.substr(dot);
    std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  }
};

// The members of one sample, while a shard is listed.
struct Members {
  std::string key;
  std::optional<TarMember> image, label, text, json;
};

class ImageShards : public ImageSource {
 public:
  ImageShards(std::span<const std::string> paths, const ImageSourceOptions& options)
      : setting_(options.setting), paths_(paths.begin(), paths.end()), names_(options.classes) {
    Fingerprint fingerprint;
    for (size_t shard = 0; shard < paths_.size(); ++shard) {
      add_shard(static_cast<int32_t>(shard), fingerprint);
    }
    if (samples_.empty()) {
      throw ConfigError(fmt::format(
          "{}: '{}' has no images: members with names such as 000001.jpg and 000001.cls", setting_,
          paths_.front()));
    }
    samples_.shrink_to_fit();
    image_names_.shrink_to_fit();
    classes_ = names_.finish();
    fingerprint_ = fingerprint.digits();
    if (num_others_ > 0) {
      log::warn("{}: {} members of shards, such as {}, are neither images nor labels nor texts",
                setting_, num_others_, first_other_);
    }
  }

  int64_t size() const override { return std::ssize(samples_); }
  std::optional<int64_t> label(int64_t i) const override { return names_.label(i); }

  ImageSample read(int64_t i) const override {
    const Sample& sample = samples_[static_cast<size_t>(i)];
    const std::string& path = paths_[static_cast<size_t>(sample.shard)];
    const io::File archive = io::File::open_for_reading(path);
    return {.content = read_extent(archive, sample.image),
            .label = label(i),
            .text = read_text(archive, sample),
            .name = fmt::format("{}: {}", path, image_names_[i])};
  }

 private:
  enum class TextKind : int8_t { none, txt, json };
  struct Sample {
    Extent image;
    int64_t text_offset;
    int32_t text_size;
    int32_t shard;
    TextKind text_kind;
  };

  void add_shard(int32_t shard, Fingerprint& fingerprint) {
    const io::File archive = io::File::open_for_reading(paths_[static_cast<size_t>(shard)]);
    Members members;
    std::unordered_set<std::string> keys;
    list_tar(archive, [&](const TarMember& member) {
      const SampleName name(member.name);
      if (name.key != members.key) {
        add_sample(members, archive, shard, fingerprint);
        members = {.key = name.key};
        if (!keys.insert(name.key).second) {
          refuse(archive, member.name,
                 "has the key of an earlier sample: the files of a sample must be neighbours");
        }
      }
      add_member(member, name, archive, members);
    });
    add_sample(members, archive, shard, fingerprint);
  }

  [[noreturn]] void refuse(const io::File& archive, const std::string& member,
                           const std::string& reason) const {
    throw ConfigError(
        fmt::format("{}: '{}': {} {}", setting_, archive.path().string(), member, reason));
  }

  void add_member(const TarMember& member, const SampleName& name, const io::File& archive,
                  Members& members) {
    std::optional<TarMember>* const place = has_image_ending(name.ending) && is_single(name.ending)
                                                ? &members.image
                                            : name.ending == ".cls"  ? &members.label
                                            : name.ending == ".txt"  ? &members.text
                                            : name.ending == ".json" ? &members.json
                                                                     : nullptr;
    if (!place) {
      if (num_others_++ == 0) first_other_ = io::quote_text(member.name);
      return;
    }
    if (*place) refuse(archive, member.name, "is the sample's second file of its kind");
    *place = member;
  }

  // Whether there is only one dot: ".jpg", not ".mask.jpg".
  static bool is_single(const std::string& ending) { return ending.rfind('.') == 0; }

  void add_sample(const Members& members, const io::File& archive, int32_t shard,
                  Fingerprint& fingerprint) {
    if (!members.image) {
      if (members.label || members.text || members.json) {
        refuse(archive, members.key, "has a label or text, but no .jpg, .jpeg, .png or .webp");
      }
      return;
    }
    for (const auto* member : {&members.label, &members.text, &members.json}) {
      if (*member && (*member)->size > kLargestText) {
        refuse(archive, (*member)->name, "has more than 1 MiB");
      }
    }
    const TarMember& image = *members.image;
    Sample sample{.image = {image.offset, image.size}, .shard = shard};
    const ImageRow fields = read_fields(members, archive);
    if (members.text) set_text(*members.text, TextKind::txt, sample);
    if (!members.text && !fields.text.empty()) set_text(*members.json, TextKind::json, sample);
    samples_.push_back(sample);
    image_names_.push_back(image.name);
    names_.add(fields.label,
               fmt::format("{}: '{}': {}", setting_, archive.path().string(), members.key));
    fingerprint.add(image.name);
    fingerprint.add(image.size);
    if (sample.text_size > 0) fingerprint.add(read_text(archive, sample));
    add_label(fields.label, fingerprint);
  }

  static void set_text(const TarMember& member, TextKind kind, Sample& sample) {
    sample.text_offset = member.offset;
    sample.text_size = static_cast<int32_t>(member.size);
    sample.text_kind = kind;
  }

  static void add_label(const std::optional<Label>& label, Fingerprint& fingerprint) {
    if (!label) return fingerprint.add("no label");
    if (const auto* const number = std::get_if<int64_t>(&*label)) return fingerprint.add(*number);
    fingerprint.add(std::get<std::string>(*label));
  }

  // Returns the label, and the text of the .json file, of a sample.
  ImageRow read_fields(const Members& members, const io::File& archive) const {
    ImageRow fields;
    if (members.json) {
      try {
        fields = read_label_and_text(parse_json(read(archive, *members.json)));
      } catch (const InvalidLine& error) {
        refuse(archive, members.json->name, error.what());
      }
    }
    if (!members.label) return fields;
    if (fields.label) refuse(archive, members.key, "has a label in .cls and in .json");
    const std::string text = read(archive, *members.label);
    if (without_blanks(text).empty()) refuse(archive, members.label->name, "is empty");
    fields.label = parse_label(without_blanks(text));
    return fields;
  }

  static std::string read(const io::File& archive, const TarMember& member) {
    return read_extent(archive, {member.offset, member.size});
  }

  static nlohmann::json parse_json(const std::string& text) {
    try {
      return nlohmann::json::parse(text);
    } catch (const nlohmann::json::exception& error) {
      throw InvalidLine(fmt::format("is no JSON ({}): correct it", error.what()));
    }
  }

  std::string read_text(const io::File& archive, const Sample& sample) const {
    if (sample.text_kind == TextKind::none) return "";
    std::string text = read_extent(archive, {sample.text_offset, sample.text_size});
    if (sample.text_kind == TextKind::txt) return std::string(without_blanks(text));
    try {
      return read_label_and_text(parse_json(text)).text;
    } catch (const InvalidLine& error) {
      throw IoError(fmt::format("'{}' has changed while it was used: a text {}",
                                archive.path().string(), error.what()));
    }
  }

  std::string setting_;
  std::vector<std::string> paths_;
  std::vector<Sample> samples_;
  PackedStrings image_names_;
  ClassNames names_;
  int64_t num_others_ = 0;
  std::string first_other_;
};

}  // namespace

std::unique_ptr<ImageSource> open_image_shards(std::span<const std::string> paths,
                                               const ImageSourceOptions& options) {
  return std::make_unique<ImageShards>(paths, options);
}

}  // namespace colossal::data
