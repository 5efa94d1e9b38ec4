// ImageSource: images on disk with labels or texts, read one by one in any order. Opening a source
// lists its images once; their contents stay on disk.
//
// These forms are known:
//
//   folder   one subfolder for each class, with images in it or in its subfolders, as torchvision's
//            ImageFolder reads them. The classes are sorted by name.
//   rows     files with rows (file_format.h), jsonl above all. A row has the image in "image" or
//            "file_name": a path, relative to the file; or {"path": ...}, {"bytes": "base64"}. It
//            may have "label" or "labels", a name or a number from 0; and "text" or "caption".
//   tables   Parquet files with a column of images: structures with the image file in "bytes", as
//            data sets of the Hugging Face Hub have them. Other columns are as the fields of a row.
//   shards   tar files, as WebDataset writes them: consecutive files whose names are equal up to
//            the first dot are a sample. One of .jpg, .jpeg, .png and .webp is its image; .cls has
//            its label, .txt its text, and .json fields as those of a row.
//   files    image files, without labels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace colossal::data {

struct ImageSample {
  std::string content;           // the image file
  std::optional<int64_t> label;  // index in ImageSource::classes()
  std::string text;              // caption; empty: none
  std::string name;              // where the image is, for messages
};

// Immutable and thread-safe.
class ImageSource {
 public:
  virtual ~ImageSource() = default;

  virtual int64_t size() const = 0;  // number of samples, at least 1
  // Returns the label of sample i, from 0; nullopt if it has none.
  virtual std::optional<int64_t> label(int64_t i) const = 0;
  // Returns ImageSample::name of sample i.
  virtual std::string name(int64_t i) const { return read(i).name; }
  // Reads a sample from disk. Throws IoError if it cannot be read or has changed.
  virtual ImageSample read(int64_t i) const = 0;

  // Names of the classes. Labels that are numbers have themselves as names. Empty if no sample has
  // a label.
  const std::vector<std::string>& classes() const { return classes_; }
  // Returns a hash of the names, sizes, labels and texts of all images, as hexadecimal digits: with
  // it a resumed run notices that its data has changed. Contents of images are not read for it; of
  // rows and of labels in shards they are. It does not depend on where the data lie.
  const std::string& fingerprint() const { return fingerprint_; }

 protected:
  std::vector<std::string> classes_;
  std::string fingerprint_;
};

struct ImageSourceOptions {
  std::string setting = "data.train";  // the configuration key of the patterns, for messages
  // The classes in their order, such as those of a model or of the training data; other labels are
  // refused. Empty: the classes that the data have.
  std::vector<std::string> classes = {};
  // Whether the images of a folder have classes; false: the folder is one of images, in itself or
  // in its subfolders, without labels.
  bool folder_has_classes = true;
};

// Opens the source that the patterns name: one folder; or files of one of these forms. Patterns
// of files are globs (glob.h), also with braces: "shard-{0000..0099}.tar", "{a,b}.jsonl".
//
// Throws ConfigError if the patterns match nothing or several forms, if there are no images, if a
// class or an image is missing, or if a row or a shard is not as above; IoError if a file cannot be
// read.
std::unique_ptr<ImageSource> open_image_source(std::span<const std::string> patterns,
                                               const ImageSourceOptions& options = {});

}  // namespace colossal::data
