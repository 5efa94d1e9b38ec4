// ImageReader: reads, decodes and processes images on several threads.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colossal/data/images/image_source.h"
#include "colossal/data/parallel_in_order.h"
#include "colossal/image/augment.h"
#include "colossal/image/processor.h"

namespace colossal::data {

struct ImageRequest {
  int64_t index = 0;      // of the source
  uint64_t position = 0;  // in the run's order of samples (sampler.h): determines augmentations
};

// Processed images.
struct ImageBatch {
  image::ImageSize size;
  std::vector<float> pixels;  // [images, channels, height, width]
  std::vector<std::optional<int64_t>> labels;
  std::vector<std::string> texts;  // empty: none
};

struct ImageReaderOptions {
  // Training: images are augmented, to the processor's size, and then rescaled and normalized.
  // nullopt: images are processed.
  std::optional<image::AugmentOptions> augmentation = {};
  uint64_t seed = 0;
  bool needs_texts = false;  // whether an image without a text is an error
  int num_threads = 1;
};

// Images do not depend on the number of threads. Not thread-safe.
class ImageReader {
 public:
  // Throws ConfigError if the size of the processor's output depends on the image, because the
  // images of a batch have the same size.
  ImageReader(std::shared_ptr<const ImageSource> source, image::Processor processor,
              const ImageReaderOptions& options);

  const ImageSource& source() const { return *source_; }
  const image::Processor& processor() const { return processor_; }
  image::ImageSize size() const { return size_; }

  // Images that are being read; must not outlive the reader.
  class Pending {
   public:
    // Waits until all images are read. Throws what reading the first damaged one of the requests
    // throws. May be called once.
    ImageBatch get();

   private:
    friend ImageReader;
    struct Image {
      std::optional<int64_t> label;
      std::string text;
    };
    // Shared with the threads, which write to it even if the caller has left.
    std::shared_ptr<ImageBatch> batch_;
    std::vector<std::future<Image>> images_;
  };

  // Starts to read images beside the caller, for example those of the next step.
  Pending start(std::span<const ImageRequest> requests);
  // Reads images.
  ImageBatch read(std::span<const ImageRequest> requests) { return start(requests).get(); }

 private:
  Pending::Image read_one(const ImageRequest& request, std::span<float> pixels) const;

  std::shared_ptr<const ImageSource> source_;
  image::Processor processor_;
  ImageReaderOptions options_;
  image::ImageSize size_;
  // Declared last so that its threads, which use the rest, end first.
  TaskQueue<Pending::Image> threads_;
};

}  // namespace colossal::data
