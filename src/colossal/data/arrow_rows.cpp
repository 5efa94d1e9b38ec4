#include "colossal/data/arrow_rows.h"

#include <dlfcn.h>

#include <filesystem>

#include "colossal/base/error.h"
#include "colossal/data/arrow_module.h"
#include "colossal/data/converted_stream.h"

namespace colossal::data {
namespace {

// Returns the path of the module, in the folder of the library or program with this function.
std::filesystem::path module_path() {
  Dl_info here{};
  ::dladdr(reinterpret_cast<const void*>(&module_path), &here);
  return std::filesystem::absolute(here.dli_fname ? here.dli_fname : "").parent_path() /
         "libcolossal_arrow.so";
}

// Loads the module, which stays loaded, and returns one of its functions. path: of the file that is
// to be read, for messages.
template <typename Function>
Function* load_function(const char* name, const std::string& path) {
  const std::filesystem::path module = module_path();
  void* const handle = ::dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* const reason = ::dlerror();
    throw ConfigError(fmt::format(
        "'{}': reading Parquet and Arrow files needs the library Apache Arrow, which "
        "was not found: for an installed colossal run pip install 'colossal[arrow]', for "
        "a build of your own run tools/setup and then tools/build, or convert the file "
        "to jsonl ({})",
        path, reason));
  }
  return reinterpret_cast<Function*>(::dlsym(handle, name));
}

class ArrowRows : public ConvertedStream {
 public:
  ArrowRows(const SourceFile& file, const RowOptions& options) : path_(file.path) {
    static OpenTable* const open_table = load_function<OpenTable>(kOpenTable, path_);
    checked([&] {
      table_.reset(
          open_table(path_.c_str(), file.format == FileFormat::parquet, options.column.c_str()));
      return true;
    });
  }

  int64_t bytes_read() const override { return table_->bytes_read(); }

 private:
  bool convert(std::string& lines) override {
    return checked([&] { return table_->read(lines); });
  }

  template <class Read>
  bool checked(const Read& read) const {
    try {
      return read();
    } catch (const std::runtime_error& error) {
      throw IoError(fmt::format("cannot read '{}': {}", path_, error.what()));
    }
  }

  std::string path_;
  std::unique_ptr<TableReader> table_;
};

void refuse_compressed(const SourceFile& file) {
  if (file.compression != Compression::none) {
    throw ConfigError(
        fmt::format("'{}' is compressed as a whole; Parquet and Arrow files are compressed "
                    "within: decompress it first",
                    file.path));
  }
}

}  // namespace

std::unique_ptr<ByteStream> arrow_as_lines(const SourceFile& file, const RowOptions& options) {
  refuse_compressed(file);
  return std::make_unique<ArrowRows>(file, options);
}

std::unique_ptr<ImageTable> open_image_table(const SourceFile& file) {
  refuse_compressed(file);
  static OpenImageTable* const open_table =
      load_function<OpenImageTable>(kOpenImageTable, file.path);
  try {
    return std::unique_ptr<ImageTable>(open_table(file.path.c_str()));
  } catch (const std::runtime_error& error) {
    throw IoError(fmt::format("cannot read '{}': {}", file.path, error.what()));
  }
}

}  // namespace colossal::data
