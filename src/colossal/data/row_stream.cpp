#include "colossal/data/row_stream.h"

#include "colossal/base/error.h"
#include "colossal/data/arrow_rows.h"
#include "colossal/data/csv_rows.h"
#include "colossal/data/json_values.h"

namespace colossal::data {

bool converts_rows(FileFormat format) {
  return format != FileFormat::jsonl && format != FileFormat::text;
}

std::unique_ptr<ByteStream> open_rows(const SourceFile& file, const RowOptions& options) {
  switch (file.format) {
    case FileFormat::json:
      return json_values_as_lines(open_bytes(file), file.path);
    case FileFormat::csv:
      return csv_as_lines(open_bytes(file), ',', options, file.path);
    case FileFormat::tsv:
      return csv_as_lines(open_bytes(file), '\t', options, file.path);
    case FileFormat::parquet:
    case FileFormat::arrow:
      return arrow_as_lines(file, options);
    case FileFormat::by_name:
    case FileFormat::text:
    case FileFormat::jsonl:
      break;
  }
  return open_bytes(file);
}

}  // namespace colossal::data
