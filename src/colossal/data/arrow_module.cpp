// The module libcolossal_arrow.so. It uses headers of base/ and data/ only that have no sources.
#include "colossal/data/arrow_module.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/util/utf8.h>
#include <parquet/arrow/reader.h>
#include <parquet/properties.h>

#include <charconv>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "colossal/data/json_text.h"

namespace colossal::data {
namespace {

constexpr int64_t kRowsAtOnce = 1024;

void check(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <class T>
T check(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

void append_json(const arrow::Array& array, int64_t i, std::string& json);

template <class Number>
void append_number(Number value, std::string& json) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value)) {
      json += "null";
      return;
    }
  }
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  json.append(text, end);
  // A whole number of a column of fractions stays a fraction.
  if constexpr (std::is_floating_point_v<Number>) {
    if (std::string_view(text, end - text).find_first_of(".e") == std::string_view::npos) {
      json += ".0";
    }
  }
}

template <class ArrayType>
void append_list(const arrow::Array& array, int64_t i, std::string& json) {
  const auto& lists = static_cast<const ArrayType&>(array);
  json += '[';
  for (int64_t k = 0; k < lists.value_length(i); ++k) {
    if (k > 0) json += ',';
    append_json(*lists.values(), lists.value_offset(i) + k, json);
  }
  json += ']';
}

// Leaves out missing members, which all structures of a column have as soon as one has them: a
// message without tool calls has none.
void append_struct(const arrow::StructArray& array, int64_t i, std::string& json) {
  json += '{';
  char before = 0;
  for (int k = 0; k < array.num_fields(); ++k) {
    if (array.field(k)->IsNull(i)) continue;
    if (std::exchange(before, ',') != 0) json += ',';
    json.append(json_text(array.type()->field(k)->name())) += ':';
    append_json(*array.field(k), i, json);
  }
  json += '}';
}

// A map with texts as keys becomes an object; any other map becomes a list of pairs.
void append_map(const arrow::MapArray& array, int64_t i, std::string& json) {
  const bool named = array.keys()->type_id() == arrow::Type::STRING;
  json += named ? '{' : '[';
  for (int64_t k = 0; k < array.value_length(i); ++k) {
    const int64_t at = array.value_offset(i) + k;
    if (k > 0) json += ',';
    if (!named) json += '[';
    append_json(*array.keys(), at, json);
    json += named ? ':' : ',';
    append_json(*array.items(), at, json);
    if (!named) json += ']';
  }
  json += named ? '}' : ']';
}

void append_printed_number(const arrow::Array& array, int64_t i, std::string& json) {
  const std::string text = check(array.GetScalar(i))->ToString();
  const bool is_finite = text.find_first_not_of("+-.0123456789eE") == std::string::npos;
  json += is_finite ? text : "null";
}

void append_other(const arrow::Array& array, int64_t i, std::string& json) {
  json += json_text(check(array.GetScalar(i))->ToString());
}

void append_json(const arrow::Array& array, int64_t i, std::string& json) {
  using arrow::Type;
  if (array.IsNull(i)) {
    json += "null";
    return;
  }
  const auto number = [&]<class Of>(const Of& typed) { append_number(typed.Value(i), json); };
  const auto text = [&]<class Of>(const Of& typed) { json += json_text(typed.GetView(i)); };
  const auto binary = [&]<class Of>(const Of& typed) {
    const std::string_view bytes = typed.GetView(i);
    json += arrow::util::ValidateUTF8(bytes) ? json_text(bytes) : "null";
  };
  switch (array.type_id()) {
    case Type::BOOL:
      json += static_cast<const arrow::BooleanArray&>(array).Value(i) ? "true" : "false";
      return;
    case Type::INT8:
      return number(static_cast<const arrow::Int8Array&>(array));
    case Type::INT16:
      return number(static_cast<const arrow::Int16Array&>(array));
    case Type::INT32:
      return number(static_cast<const arrow::Int32Array&>(array));
    case Type::INT64:
      return number(static_cast<const arrow::Int64Array&>(array));
    case Type::UINT8:
      return number(static_cast<const arrow::UInt8Array&>(array));
    case Type::UINT16:
      return number(static_cast<const arrow::UInt16Array&>(array));
    case Type::UINT32:
      return number(static_cast<const arrow::UInt32Array&>(array));
    case Type::UINT64:
      return number(static_cast<const arrow::UInt64Array&>(array));
    case Type::FLOAT:
      return number(static_cast<const arrow::FloatArray&>(array));
    case Type::DOUBLE:
      return number(static_cast<const arrow::DoubleArray&>(array));
    case Type::STRING:
      return text(static_cast<const arrow::BinaryArray&>(array));
    case Type::LARGE_STRING:
      return text(static_cast<const arrow::LargeBinaryArray&>(array));
    case Type::STRING_VIEW:
      return text(static_cast<const arrow::BinaryViewArray&>(array));
    case Type::BINARY:
      return binary(static_cast<const arrow::BinaryArray&>(array));
    case Type::LARGE_BINARY:
      return binary(static_cast<const arrow::LargeBinaryArray&>(array));
    case Type::BINARY_VIEW:
      return binary(static_cast<const arrow::BinaryViewArray&>(array));
    case Type::LIST:
      return append_list<arrow::ListArray>(array, i, json);
    case Type::LARGE_LIST:
      return append_list<arrow::LargeListArray>(array, i, json);
    case Type::LIST_VIEW:
      return append_list<arrow::ListViewArray>(array, i, json);
    case Type::LARGE_LIST_VIEW:
      return append_list<arrow::LargeListViewArray>(array, i, json);
    case Type::FIXED_SIZE_LIST:
      return append_list<arrow::FixedSizeListArray>(array, i, json);
    case Type::STRUCT:
      return append_struct(static_cast<const arrow::StructArray&>(array), i, json);
    case Type::MAP:
      return append_map(static_cast<const arrow::MapArray&>(array), i, json);
    case Type::DICTIONARY: {
      const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
      return append_json(*coded.dictionary(), coded.GetValueIndex(i), json);
    }
    case Type::EXTENSION:
      return append_json(*static_cast<const arrow::ExtensionArray&>(array).storage(), i, json);
    case Type::HALF_FLOAT:
    case Type::DECIMAL32:
    case Type::DECIMAL64:
    case Type::DECIMAL128:
    case Type::DECIMAL256:
      return append_printed_number(array, i, json);
    default:
      return append_other(array, i, json);
  }
}

void append_rows(const arrow::RecordBatch& rows, const std::string& column, std::string& lines) {
  std::vector<int> columns;
  const int only = column.empty() ? -1 : rows.schema()->GetFieldIndex(column);
  for (int k = 0; k < rows.num_columns(); ++k) {
    if (only < 0 || k == only) columns.push_back(k);
  }
  for (int64_t i = 0; i < rows.num_rows(); ++i) {
    char before = '{';
    for (const int k : columns) {
      lines += std::exchange(before, ',');
      lines.append(json_text(rows.column_name(k))) += ':';
      append_json(*rows.column(k), i, lines);
    }
    if (columns.empty()) lines += '{';
    lines += "}\n";
  }
}

// Opens a file to be read in pieces, on the calling thread alone.
std::unique_ptr<parquet::arrow::FileReader> open_parquet(const char* path) {
  parquet::ArrowReaderProperties properties;
  properties.set_batch_size(kRowsAtOnce);
  properties.set_pre_buffer(false);  // would hold whole files in memory
  properties.set_use_threads(false);
  parquet::arrow::FileReaderBuilder builder;
  check(builder.OpenFile(path));
  builder.properties(properties);
  return check(builder.Build());
}

class ParquetTable : public TableReader {
 public:
  ParquetTable(const char* path, std::string column)
      : column_(std::move(column)), file_(open_parquet(path)) {
    const auto metadata = file_->parquet_reader()->metadata();
    num_rows_ = metadata->num_rows();
    bytes_ = check(check(arrow::io::ReadableFile::Open(path))->GetSize());
    std::vector<int> groups(metadata->num_row_groups());
    for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<int>(i);
    const std::vector<int> leaves = leaves_of_column(*metadata->schema());
    batches_ = leaves.empty() ? check(file_->GetRecordBatchReader(groups))
                              : check(file_->GetRecordBatchReader(groups, leaves));
  }

  bool read(std::string& lines) override {
    std::shared_ptr<arrow::RecordBatch> rows;
    check(batches_->ReadNext(&rows));
    if (!rows) return false;
    append_rows(*rows, column_, lines);
    rows_done_ += rows->num_rows();
    return true;
  }
  int64_t bytes_read() const override {
    return num_rows_ == 0 ? bytes_
                          : static_cast<int64_t>(static_cast<double>(bytes_) *
                                                 static_cast<double>(rows_done_) /
                                                 static_cast<double>(num_rows_));
  }

 private:
  // Returns the columns of the file that make up column_, which may have structure.
  std::vector<int> leaves_of_column(const parquet::SchemaDescriptor& schema) const {
    std::vector<int> leaves;
    for (int i = 0; i < schema.num_columns() && !column_.empty(); ++i) {
      if (schema.GetColumnRoot(i)->name() == column_) leaves.push_back(i);
    }
    return leaves;
  }

  std::string column_;
  std::unique_ptr<parquet::arrow::FileReader> file_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  int64_t num_rows_ = 0, rows_done_ = 0, bytes_ = 0;
};

// An Arrow IPC file begins with "ARROW1", a stream does not.
class ArrowTable : public TableReader {
 public:
  ArrowTable(const char* path, std::string column)
      : column_(std::move(column)), input_(check(arrow::io::ReadableFile::Open(path))) {
    const auto first = check(input_->ReadAt(0, 6));
    if (first->ToString() == "ARROW1") {
      file_ = check(arrow::ipc::RecordBatchFileReader::Open(input_));
    } else {
      check(input_->Seek(0));
      stream_ = check(arrow::ipc::RecordBatchStreamReader::Open(input_));
    }
  }

  bool read(std::string& lines) override {
    std::shared_ptr<arrow::RecordBatch> rows;
    if (stream_) {
      check(stream_->ReadNext(&rows));
    } else if (next_ < file_->num_record_batches()) {
      rows = check(file_->ReadRecordBatch(next_++));
    }
    if (!rows) return false;
    append_rows(*rows, column_, lines);
    return true;
  }
  int64_t bytes_read() const override {
    if (stream_) return check(input_->Tell());
    const int all = std::max(file_->num_record_batches(), 1);
    return check(input_->GetSize()) * next_ / all;
  }

 private:
  std::string column_;
  std::shared_ptr<arrow::io::ReadableFile> input_;
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
  std::shared_ptr<arrow::RecordBatchReader> stream_;
  int next_ = 0;  // of the batches of file_
};

class ParquetImages : public ImageTable {
 public:
  ParquetImages(std::unique_ptr<parquet::arrow::FileReader> file, int bytes_leaf)
      : file_(std::move(file)), bytes_leaf_(bytes_leaf) {
    std::vector<int> groups, leaves;
    const auto metadata = file_->parquet_reader()->metadata();
    for (int i = 0; i < metadata->num_row_groups(); ++i) groups.push_back(i);
    for (int i = 0; i < metadata->schema()->num_columns(); ++i) {
      if (i != bytes_leaf_) leaves.push_back(i);
    }
    batches_ = check(file_->GetRecordBatchReader(groups, leaves));
  }

  bool read(std::string& lines) override {
    std::shared_ptr<arrow::RecordBatch> rows;
    check(batches_->ReadNext(&rows));
    if (!rows) return false;
    append_rows(*rows, "", lines);
    return true;
  }

  std::vector<RowGroup> row_groups() const override {
    std::vector<RowGroup> groups;
    const auto metadata = file_->parquet_reader()->metadata();
    for (int i = 0; i < metadata->num_row_groups(); ++i) {
      const auto group = metadata->RowGroup(i);
      groups.push_back(
          {group->num_rows(), group->ColumnChunk(bytes_leaf_)->total_uncompressed_size()});
    }
    return groups;
  }

  std::vector<std::string> read_images(int row_group) override {
    const auto table = check(file_->ReadRowGroup(row_group, {bytes_leaf_}));
    std::vector<std::string> images;
    for (const auto& chunk : table->column(0)->chunks()) {
      const auto& structs = static_cast<const arrow::StructArray&>(*chunk);
      const auto bytes = structs.field(0);
      for (int64_t i = 0; i < structs.length(); ++i) {
        images.emplace_back(structs.IsNull(i) ? std::string_view() : bytes_at(*bytes, i));
      }
    }
    return images;
  }

  // Returns the column in the file with the bytes of images; -1 if there is none.
  static int find_bytes(const parquet::SchemaDescriptor& schema) {
    int found = -1;
    for (int i = 0; i < schema.num_columns(); ++i) {
      const parquet::ColumnDescriptor* const column = schema.Column(i);
      const std::string root = schema.GetColumnRoot(i)->name();
      const bool is_bytes = column->physical_type() == parquet::Type::BYTE_ARRAY &&
                            column->path()->ToDotString() == root + ".bytes";
      if (!is_bytes) continue;
      if (found >= 0) {
        throw std::runtime_error("two of its columns have images, \"" +
                                 schema.GetColumnRoot(found)->name() + "\" and \"" + root +
                                 "\", and a sample has one: remove one of them");
      }
      found = i;
    }
    return found;
  }

 private:
  static std::string_view bytes_at(const arrow::Array& array, int64_t i) {
    if (array.IsNull(i)) return {};
    switch (array.type_id()) {
      case arrow::Type::BINARY:
      case arrow::Type::STRING:
        return static_cast<const arrow::BinaryArray&>(array).GetView(i);
      case arrow::Type::LARGE_BINARY:
      case arrow::Type::LARGE_STRING:
        return static_cast<const arrow::LargeBinaryArray&>(array).GetView(i);
      default:
        throw std::runtime_error("its images have the type " + array.type()->ToString() +
                                 ", and binary is needed");
    }
  }

  std::unique_ptr<parquet::arrow::FileReader> file_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  int bytes_leaf_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) ImageTable* colossal_open_image_table(
    const char* path) {
  arrow::util::InitializeUTF8();
  auto file = open_parquet(path);
  const int bytes = ParquetImages::find_bytes(*file->parquet_reader()->metadata()->schema());
  return bytes < 0 ? nullptr : new ParquetImages(std::move(file), bytes);
}

extern "C" __attribute__((visibility("default"))) TableReader* colossal_open_table(
    const char* path, bool is_parquet, const char* column) {
  arrow::util::InitializeUTF8();
  if (is_parquet) return new ParquetTable(path, column);
  return new ArrowTable(path, column);
}

}  // namespace colossal::data
