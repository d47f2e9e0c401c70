// Comma-separated values, a record at a time: quotes as in RFC 4180, either line end, a byte order
// mark and blanks around a field ignored. It knows no columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moetwin {

class CsvReader {
 public:
  /// `bytes` must outlive the reader; `name` stands for the file in messages. Takes the first
  /// record as the header and throws InputError if there is none or a column is named twice.
  CsvReader(std::string_view bytes, std::string name);

  /// Index of a column, -1 if there is none.
  int64_t column(std::string_view title) const;
  const std::vector<std::string_view>& header() const { return header_; }

  /// Moves to the next record; false at the end. Throws InputError for one that has not as many
  /// fields as the header or a quote that is not closed.
  bool next();

  /// Number of the current record, 1 for the first after the header.
  uint64_t row() const { return row_; }
  /// A field of the current record, without its quotes (a doubled quote inside stays doubled).
  std::string_view field(int64_t column) const { return fields_[static_cast<size_t>(column)]; }

  /// "NAME row 12 column e3", for messages about a field.
  std::string place(int64_t column) const;

 private:
  void read_record();
  std::string_view read_field();

  std::string_view bytes_;
  std::string name_;
  size_t at_ = 0;
  uint64_t row_ = 0;
  std::vector<std::string_view> header_;
  std::vector<std::string_view> fields_;
};

}  // namespace moetwin
