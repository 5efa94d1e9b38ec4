// Processor: makes the input of a vision model from an image, as the file preprocessor_config.json
// of the model's folder says: resize, crop, rescale, normalize. The numbers are those of the image
// processors of transformers that compute with Pillow and NumPy ("backend='pil'"), to the last bit.
#pragma once

#include <array>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colossal/image/image.h"
#include "colossal/image/resize.h"

namespace colossal::image {

// The classes of transformers whose files are read. They differ in the values of fields that a file
// leaves out, and in how ConvNeXT resizes.
enum class ProcessorKind { vit, deit, clip, siglip, beit, bit, convnext };

// How the size of the resized image follows from that of the image.
struct ResizeRule {
  enum class Kind {
    exact,          // `size`
    shortest_edge,  // the shorter side becomes shortest_edge, the longer one in proportion
    // ConvNeXT: below 384 pixels, the shorter side becomes shortest_edge / crop_fraction, and the
    // middle, shortest_edge x shortest_edge, is cropped; from 384 on, the whole image becomes
    // shortest_edge x shortest_edge.
    crop_fraction,
  };
  Kind kind = Kind::exact;
  ImageSize size{224, 224};
  int64_t shortest_edge = 224;
  int64_t longest_edge = 0;  // of shortest_edge: the most pixels of the longer side; 0: any number
  double crop_fraction = 224.0 / 256.0;
};

struct ProcessorOptions {
  ProcessorKind kind = ProcessorKind::vit;
  std::optional<ResizeRule> resize = ResizeRule{};  // nullopt: not resized
  Filter filter = Filter::bilinear;
  // Cut from the middle after resizing; a smaller image gets a black border.
  std::optional<ImageSize> center_crop = {};
  // Multiplies the values 0 to 255; nullopt: not rescaled.
  std::optional<double> rescale_factor = 1.0 / 255.0;

  // Afterwards the mean of a channel is subtracted and the result is divided by std.
  struct Normalization {
    std::array<double, kChannels> mean{0.5, 0.5, 0.5};
    std::array<double, kChannels> std{0.5, 0.5, 0.5};
  };
  std::optional<Normalization> normalize = Normalization{};
};

// Returns whether a model's folder has a file from which Processor::from_folder() reads.
bool has_processor(const std::filesystem::path& folder);

// Immutable and thread-safe.
class Processor {
 public:
  // Of a model that is trained from scratch. ResizeRule::Kind::crop_fraction and
  // ProcessorKind::convnext need each other.
  explicit Processor(const ProcessorOptions& options);

  // Reads the processor of a model folder: "image_processor" of processor_config.json if there is
  // one, else preprocessor_config.json. If the file does not name its class, config.json's
  // model_type does. Throws ConfigError if neither file exists, or if a field has a value, or the
  // file a field, that changes pixels in a way that is not supported; IoError if a file cannot be
  // read.
  static Processor from_folder(const std::filesystem::path& folder);
  // Reads the contents of preprocessor_config.json. source: its path, for messages. model_type: of
  // the model, used if the file does not name its class; may be empty.
  static Processor from_json(const nlohmann::json& fields, const std::string& source,
                             const std::string& model_type = "");

  const ProcessorOptions& options() const { return options_; }

  // Returns the contents of a preprocessor_config.json from which transformers, too, makes this
  // processor.
  std::string to_json() const;

  // Returns the size of all processed images; nullopt if it depends on the image.
  std::optional<ImageSize> output_size() const;

  // Returns the pixels of the processed image, [channels, height, width].
  struct Output {
    ImageSize size;
    std::vector<float> pixels;
  };
  Output process(const Image& image) const;
  // Writes the pixels of the processed image to `out`, which has as many elements. Throws
  // InternalError if output_size() is nullopt or `out` has another size.
  void process_into(const Image& image, std::span<float> out) const;

  // Returns the image in its final size, neither rescaled nor normalized.
  Image resized_and_cropped(const Image& image) const;
  // Only rescales and normalizes an image that has its final size, such as an augmented one
  // (augment.h). out: [channels, height, width].
  void normalize_into(const Image& image, std::span<float> out) const;

 private:
  ProcessorOptions options_;
  // The output for each value of a channel, which the pixels have before they are rescaled.
  std::array<std::array<float, 256>, kChannels> values_;
};

}  // namespace colossal::image
