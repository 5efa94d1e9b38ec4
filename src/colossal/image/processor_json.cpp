// Reads and writes preprocessor_config.json.
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "colossal/base/error.h"
#include "colossal/base/nearest.h"
#include "colossal/image/processor.h"
#include "colossal/io/file.h"
#include "colossal/io/json.h"

namespace colossal::image {
namespace {

using nlohmann::json;

using Channels = std::array<double, kChannels>;
constexpr Channels kStandard{0.5, 0.5, 0.5};  // IMAGENET_STANDARD_MEAN and _STD of transformers
constexpr Channels kClipMean{0.48145466, 0.4578275, 0.40821073};
constexpr Channels kClipStd{0.26862954, 0.26130258, 0.27577711};
constexpr int64_t kLargestSide = 1 << 16;

// A class of transformers and the values of fields that a file leaves out.
struct ProcessorClass {
  ProcessorKind kind;
  std::string name;  // of the class, without "ImageProcessor"
  std::vector<std::string> model_types;
  Filter filter = Filter::bicubic;
  json size;
  bool default_to_square = true;  // whether a number as size means a square
  bool do_center_crop = false;
  std::optional<int64_t> crop_size = {};
  Channels mean = kStandard;
  Channels std = kStandard;
};

const std::vector<ProcessorClass>& classes() {
  static const std::vector<ProcessorClass> table = {
      {ProcessorKind::vit,
       "ViT",
       {"vit", "swin", "swinv2", "swiftformer", "vit_mae", "vit_msn", "ijepa"},
       Filter::bilinear,
       {{"height", 224}, {"width", 224}}},
      {ProcessorKind::deit,
       "DeiT",
       {"deit"},
       Filter::bicubic,
       {{"height", 256}, {"width", 256}},
       true,
       true,
       224},
      {ProcessorKind::clip,
       "CLIP",
       {"clip", "clip_vision_model"},
       Filter::bicubic,
       {{"shortest_edge", 224}},
       false,
       true,
       224,
       kClipMean,
       kClipStd},
      {ProcessorKind::siglip,
       "Siglip",
       {"siglip", "siglip_vision_model"},
       Filter::bicubic,
       {{"height", 224}, {"width", 224}},
       false},
      {ProcessorKind::beit,
       "Beit",
       {"beit", "data2vec-vision"},
       Filter::bicubic,
       {{"height", 224}, {"width", 224}},
       true,
       false,
       224},
      {ProcessorKind::bit,
       "Bit",
       {"bit", "dinov2", "dinov2_with_registers", "focalnet", "hiera"},
       Filter::bicubic,
       {{"shortest_edge", 224}},
       false,
       true,
       224,
       kClipMean,
       kClipStd},
      {ProcessorKind::convnext,
       "ConvNext",
       {"convnext", "convnextv2", "cvt", "resnet", "regnet"},
       Filter::bicubic,
       {{"shortest_edge", 384}},
       false}};
  return table;
}

// Fields that change no pixel of an RGB image.
const std::set<std::string>& harmless_fields() {
  static const std::set<std::string> names = {
      "image_processor_type",  "feature_extractor_type", "processor_class", "auto_map",
      "_valid_processor_keys", "return_tensors",         "device",          "disable_grouping",
      "image_seq_length",      "do_reduce_labels",       "reduce_labels",   "pad_size",
      "model_input_names",     "input_data_format"};
  return names;
}

std::string strip_suffix(std::string name, std::string_view suffix) {
  if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  return name;
}

// Reads the fields of one file. Every field of the file is read, known to be harmless, or refused.
class Fields {
 public:
  Fields(const json& fields, std::string source) : fields_(fields), source_(std::move(source)) {
    if (!fields.is_object()) {
      throw ConfigError(
          fmt::format("{}: holds {}, and an object is needed", source_, io::show_value(fields)));
    }
  }

  // Returns the field; a null value, too, if the file leaves it out or has null.
  const json& get(const std::string& name) {
    static const json null;
    read_.insert(name);
    const auto found = fields_.find(name);
    return found == fields_.end() ? null : *found;
  }

  bool flag(const std::string& name, bool otherwise) {
    const json& value = get(name);
    if (value.is_null()) return otherwise;
    if (!value.is_boolean()) refuse(name, "true or false");
    return value.get<bool>();
  }

  // wanted: what would work.
  [[noreturn]] void refuse(const std::string& name, const std::string& wanted) {
    throw ConfigError(fmt::format("{}: {} is {}, but must be {}", source_, name,
                                  io::show_value(get(name)), wanted));
  }

  void refuse_unread() const {
    for (const auto& [name, value] : fields_.items()) {
      if (read_.contains(name) || harmless_fields().contains(name)) continue;
      const std::vector<std::string> known(read_.begin(), read_.end());
      throw ConfigError(
          fmt::format("{}: the field {} = {} is unknown, and may change pixels: remove it if it "
                      "does not (did you mean {}?)",
                      source_, io::quote_text(name), io::show_value(value), nearest(name, known)));
    }
  }

  const std::string& source() const { return source_; }

 private:
  const json& fields_;
  std::string source_;
  std::set<std::string> read_;
};

std::string names_of_classes() {
  std::vector<std::string> names;
  for (const ProcessorClass& known : classes()) names.push_back(known.name + "ImageProcessor");
  return fmt::format("{}", fmt::join(names, ", "));
}

const ProcessorClass& class_of_model(const std::string& model_type, const std::string& source) {
  for (const ProcessorClass& known : classes()) {
    if (std::ranges::find(known.model_types, model_type) != known.model_types.end()) return known;
  }
  throw ConfigError(fmt::format(
      "{}: names no image_processor_type, and {}: add one of {}", source,
      model_type.empty()
          ? "there is no model_type to choose it by"
          : fmt::format("none is known for the model_type {}", io::quote_text(model_type)),
      names_of_classes()));
}

// Names of classes may end in Fast or Pil, and those of older files in FeatureExtractor.
const ProcessorClass& class_of(Fields& fields, const std::string& model_type) {
  for (const char* const field : {"image_processor_type", "feature_extractor_type"}) {
    const json& value = fields.get(field);
    if (value.is_null()) continue;
    if (!value.is_string()) fields.refuse(field, "a name such as \"ViTImageProcessor\"");
    std::string name = strip_suffix(strip_suffix(value.get<std::string>(), "Fast"), "Pil");
    name = strip_suffix(strip_suffix(std::move(name), "ImageProcessor"), "FeatureExtractor");
    for (const ProcessorClass& known : classes()) {
      if (name == known.name) return known;
    }
    fields.refuse(field, "one of " + names_of_classes());
  }
  return class_of_model(model_type, fields.source());
}

bool is_side(const json& value) {
  return value.is_number_integer() && value >= 1 && value <= kLargestSide;
}

// Returns whether `value` is an object of exactly these sides.
bool has_sides(const json& value, const std::vector<std::string>& names) {
  if (!value.is_object() || value.size() != names.size()) return false;
  return std::ranges::all_of(
      names, [&](const std::string& name) { return value.contains(name) && is_side(value[name]); });
}

std::optional<ImageSize> exact_size(const json& value) {
  if (has_sides(value, {"height", "width"})) return ImageSize{value["height"], value["width"]};
  if (value.is_array() && value.size() == 2 && is_side(value[0]) && is_side(value[1])) {
    return ImageSize{value[0], value[1]};
  }
  return std::nullopt;
}

std::optional<ResizeRule> resize_rule(const json& value, bool default_to_square) {
  using Kind = ResizeRule::Kind;
  if (const auto size = exact_size(value)) return ResizeRule{.kind = Kind::exact, .size = *size};
  if (is_side(value) && default_to_square) {
    return ResizeRule{.kind = Kind::exact, .size = {value, value}};
  }
  if (is_side(value)) return ResizeRule{.kind = Kind::shortest_edge, .shortest_edge = value};
  if (has_sides(value, {"shortest_edge"})) {
    return ResizeRule{.kind = Kind::shortest_edge, .shortest_edge = value["shortest_edge"]};
  }
  if (has_sides(value, {"shortest_edge", "longest_edge"})) {
    return ResizeRule{.kind = Kind::shortest_edge,
                      .shortest_edge = value["shortest_edge"],
                      .longest_edge = value["longest_edge"]};
  }
  return std::nullopt;
}

double crop_fraction(Fields& fields) {
  const json& value = fields.get("crop_pct");
  if (value.is_null()) return ResizeRule{}.crop_fraction;
  if (!value.is_number() || !(value > 0) || !(value <= 1)) {
    fields.refuse("crop_pct", "more than 0 and at most 1");
  }
  return value.get<double>();
}

std::optional<ResizeRule> read_resize(Fields& fields, const ProcessorClass& known) {
  const bool to_square = fields.flag("default_to_square", known.default_to_square);
  const bool do_resize = fields.flag("do_resize", true);
  const json& given = fields.get("size");
  auto rule = resize_rule(given.is_null() ? known.size : given, to_square);
  const bool is_convnext = known.kind == ProcessorKind::convnext;
  const double fraction = is_convnext ? crop_fraction(fields) : 0;
  if (!do_resize) return std::nullopt;
  if (is_convnext) {
    if (!rule || rule->kind != ResizeRule::Kind::shortest_edge || rule->longest_edge > 0) {
      fields.refuse("size", "{\"shortest_edge\": pixels} for this class");
    }
    rule->kind = ResizeRule::Kind::crop_fraction;
    rule->crop_fraction = fraction;
  }
  if (!rule) {
    fields.refuse("size",
                  "a number of pixels, {\"height\": ..., \"width\": ...}, {\"shortest_edge\": ...} "
                  "or {\"shortest_edge\": ..., \"longest_edge\": ...}");
  }
  return rule;
}

Filter read_filter(Fields& fields, const ProcessorClass& known) {
  const json& value = fields.get("resample");
  if (value.is_null()) return known.filter;
  if (!value.is_number_integer() || value < 0 || value > 5) {
    fields.refuse("resample",
                  "0 (nearest), 1 (lanczos), 2 (bilinear), 3 (bicubic), 4 (box) or 5 (hamming)");
  }
  return static_cast<Filter>(value.get<int>());
}

std::optional<ImageSize> read_center_crop(Fields& fields, const ProcessorClass& known) {
  const bool do_center_crop = fields.flag("do_center_crop", known.do_center_crop);
  const json& given = fields.get("crop_size");
  if (!do_center_crop) return std::nullopt;
  if (given.is_null() && known.crop_size) return ImageSize{*known.crop_size, *known.crop_size};
  if (is_side(given)) return ImageSize{given, given};
  if (const auto size = exact_size(given)) return size;
  fields.refuse("crop_size", "a number of pixels or {\"height\": ..., \"width\": ...}");
}

std::optional<double> read_rescale_factor(Fields& fields) {
  const bool do_rescale = fields.flag("do_rescale", true);
  const json& value = fields.get("rescale_factor");
  if (!do_rescale) return std::nullopt;
  if (value.is_null()) return 1.0 / 255.0;
  if (!value.is_number()) fields.refuse("rescale_factor", "a number, such as 0.00392156862745098");
  return value.get<double>();
}

Channels read_channels(Fields& fields, const std::string& name, const Channels& otherwise) {
  const json& value = fields.get(name);
  if (value.is_null()) return otherwise;
  Channels channels;
  if (value.is_number()) {
    channels.fill(value.get<double>());
    return channels;
  }
  const bool is_list = value.is_array() && value.size() == channels.size() &&
                       std::ranges::all_of(value, [](const json& v) { return v.is_number(); });
  if (!is_list) fields.refuse(name, "a list of 3 numbers, for red, green and blue");
  for (size_t i = 0; i < channels.size(); ++i) channels[i] = value[i].get<double>();
  return channels;
}

std::optional<ProcessorOptions::Normalization> read_normalization(Fields& fields,
                                                                  const ProcessorClass& known) {
  const bool do_normalize = fields.flag("do_normalize", true);
  const Channels mean = read_channels(fields, "image_mean", known.mean);
  const Channels std = read_channels(fields, "image_std", known.std);
  if (!do_normalize) return std::nullopt;
  for (const double value : std) {
    if (value == 0) fields.refuse("image_std", "other than 0, because pixels are divided by it");
  }
  return ProcessorOptions::Normalization{mean, std};
}

// Fields that change the result unless they have the value that nearly all files have.
void refuse_unsupported(Fields& fields) {
  if (fields.flag("do_pad", false)) {
    fields.refuse("do_pad", "false: images are not padded to the largest of a batch");
  }
  if (fields.flag("use_square_size", false)) {
    fields.refuse("use_square_size",
                  "false: give the size as {\"height\": ..., \"width\": ...} instead");
  }
  fields.flag("do_convert_rgb", true);  // images are RGB in any case
  const json& format = fields.get("data_format");
  if (!format.is_null() && format != "channels_first") {
    fields.refuse("data_format", "\"channels_first\"");
  }
}

const ProcessorClass& class_of_kind(ProcessorKind kind) {
  for (const ProcessorClass& known : classes()) {
    if (known.kind == kind) return known;
  }
  COLOSSAL_CHECK(false, "kind {}", static_cast<int>(kind));
}

void write_resize(const ResizeRule& rule, nlohmann::ordered_json& fields) {
  switch (rule.kind) {
    case ResizeRule::Kind::exact:
      fields["size"] = {{"height", rule.size.height}, {"width", rule.size.width}};
      return;
    case ResizeRule::Kind::shortest_edge:
      fields["size"] = {{"shortest_edge", rule.shortest_edge}};
      if (rule.longest_edge > 0) fields["size"]["longest_edge"] = rule.longest_edge;
      return;
    case ResizeRule::Kind::crop_fraction:
      fields["size"] = {{"shortest_edge", rule.shortest_edge}};
      fields["crop_pct"] = rule.crop_fraction;
  }
}

std::string model_type_in(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  if (!io::path_exists(path)) return "";
  const json config = io::read_json(path);
  const auto found = config.find("model_type");
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

Processor Processor::from_json(const json& given, const std::string& source,
                               const std::string& model_type) {
  Fields fields(given, source);
  const ProcessorClass& known = class_of(fields, model_type);
  refuse_unsupported(fields);
  ProcessorOptions options{.kind = known.kind,
                           .resize = read_resize(fields, known),
                           .filter = read_filter(fields, known),
                           .center_crop = read_center_crop(fields, known),
                           .rescale_factor = read_rescale_factor(fields),
                           .normalize = read_normalization(fields, known)};
  fields.refuse_unread();
  return Processor(options);
}

namespace {

constexpr const char* kProcessorFile = "preprocessor_config.json";
constexpr const char* kCombinedFile = "processor_config.json";  // of several processors

// Returns "image_processor" of processor_config.json; null if there is none.
json combined_fields(const std::filesystem::path& folder) {
  if (!io::path_exists(folder / kCombinedFile)) return nullptr;
  const json fields = io::read_json(folder / kCombinedFile);
  return fields.is_object() ? fields.value("image_processor", json()) : json();
}

}  // namespace

bool has_processor(const std::filesystem::path& folder) {
  return io::path_exists(folder / kProcessorFile) || !combined_fields(folder).is_null();
}

Processor Processor::from_folder(const std::filesystem::path& folder) {
  if (const json fields = combined_fields(folder); !fields.is_null()) {
    return from_json(fields, (folder / kCombinedFile).string() + ", image_processor",
                     model_type_in(folder));
  }
  const auto path = folder / kProcessorFile;
  if (io::path_exists(path)) {
    return from_json(io::read_json(path), path.string(), model_type_in(folder));
  }
  throw ConfigError(fmt::format(
      "'{}' has no preprocessor_config.json, which says how images become the model's input: copy "
      "it from the folder that the model comes from",
      folder.string()));
}

std::string Processor::to_json() const {
  nlohmann::ordered_json fields;
  fields["image_processor_type"] = class_of_kind(options_.kind).name + "ImageProcessor";
  fields["do_convert_rgb"] = true;
  fields["do_resize"] = options_.resize.has_value();
  if (options_.resize) write_resize(*options_.resize, fields);
  fields["resample"] = static_cast<int>(options_.filter);
  fields["do_center_crop"] = options_.center_crop.has_value();
  if (const auto& crop = options_.center_crop) {
    fields["crop_size"] = {{"height", crop->height}, {"width", crop->width}};
  }
  fields["do_rescale"] = options_.rescale_factor.has_value();
  if (options_.rescale_factor) fields["rescale_factor"] = *options_.rescale_factor;
  fields["do_normalize"] = options_.normalize.has_value();
  if (options_.normalize) {
    fields["image_mean"] = options_.normalize->mean;
    fields["image_std"] = options_.normalize->std;
  }
  return fields.dump(2) + "\n";
}

}  // namespace colossal::image
