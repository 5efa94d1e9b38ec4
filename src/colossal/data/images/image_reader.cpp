#include "colossal/data/images/image_reader.h"

#include "colossal/base/error.h"
#include "colossal/image/decode.h"

namespace colossal::data {
namespace {

image::ImageSize size_of(const image::Processor& processor) {
  if (const auto size = processor.output_size()) return *size;
  throw ConfigError(
      "preprocessor_config.json: the size of processed images depends on the image, but the images "
      "of a batch need the same size: set size to {\"height\": ..., \"width\": ...}, or "
      "do_center_crop and crop_size");
}

}  // namespace

ImageReader::ImageReader(std::shared_ptr<const ImageSource> source, image::Processor processor,
                         const ImageReaderOptions& options)
    : source_(std::move(source)),
      processor_(std::move(processor)),
      options_(options),
      size_(size_of(processor_)),
      threads_(options.num_threads) {
  COLOSSAL_CHECK(options.num_threads >= 1, "{} threads", options.num_threads);
}

ImageReader::Pending ImageReader::start(std::span<const ImageRequest> requests) {
  const size_t values = static_cast<size_t>(image::kChannels * size_.height * size_.width);
  Pending pending;
  pending.batch_ = std::make_shared<ImageBatch>();
  pending.batch_->size = size_;
  pending.batch_->pixels.resize(values * requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    pending.images_.push_back(
        threads_.submit([this, batch = pending.batch_, request = requests[i], i, values] {
          return read_one(request, std::span(batch->pixels).subspan(i * values, values));
        }));
  }
  return pending;
}

ImageReader::Pending::Image ImageReader::read_one(const ImageRequest& request,
                                                  std::span<float> pixels) const {
  ImageSample sample = source_->read(request.index);
  if (options_.needs_texts && sample.text.empty()) {
    throw ConfigError(
        fmt::format("{}: the image has no text, which the model compares with it; rows have it in "
                    "\"text\" or \"caption\", tar shards in a .txt file beside the image",
                    sample.name));
  }
  const image::Image decoded = image::decode_image(sample.content, sample.name);
  if (options_.augmentation) {
    const image::Image source =
        options_.augmentation->crop ? decoded : processor_.resized_and_cropped(decoded);
    processor_.normalize_into(
        image::augment(source, size_, processor_.options().filter, *options_.augmentation,
                       options_.seed, request.position),
        pixels);
  } else {
    processor_.process_into(decoded, pixels);
  }
  return {sample.label, std::move(sample.text)};
}

ImageBatch ImageReader::Pending::get() {
  for (std::future<Image>& image : images_) {
    Image read = image.get();
    batch_->labels.push_back(read.label);
    batch_->texts.push_back(std::move(read.text));
  }
  return std::move(*batch_);
}

}  // namespace colossal::data
