#include "model/csv.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "model/mapped_file.h"

namespace moetwin {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

CsvReader::CsvReader(std::string_view bytes, std::string name)
    : bytes_(bytes), name_(std::move(name)) {
  if (bytes_.substr(0, kByteOrderMark.size()) == kByteOrderMark) at_ = kByteOrderMark.size();
  // Blank lines at the end are no records.
  bytes_ = bytes_.substr(0, bytes_.find_last_not_of("\r\n") + 1);
  if (at_ >= bytes_.size()) throw InputError(name_ + ": is empty; a CSV file begins with a header");
  read_record();
  header_ = fields_;
  std::vector<std::string_view> sorted = header_;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    throw InputError(name_ + ": column \"" + one_line(*twice, 60) + "\" is there twice");
  }
}

int64_t CsvReader::column(std::string_view title) const {
  const auto found = std::find(header_.begin(), header_.end(), title);
  return found == header_.end() ? -1 : found - header_.begin();
}

bool CsvReader::next() {
  if (at_ == bytes_.size()) return false;
  ++row_;
  read_record();
  if (fields_.size() != header_.size()) {
    throw InputError(name_ + " row " + std::to_string(row_) + ": " +
                     std::to_string(fields_.size()) + " fields; the header has " +
                     std::to_string(header_.size()));
  }
  return true;
}

std::string CsvReader::place(int64_t column) const {
  return name_ + " row " + std::to_string(row_) + " column " +
         one_line(header_[static_cast<size_t>(column)], 60);
}

void CsvReader::read_record() {
  fields_.clear();
  for (;;) {
    fields_.push_back(read_field());
    if (at_ == bytes_.size()) return;
    const char separator = bytes_[at_++];
    if (separator == ',') continue;
    if (separator == '\r' && at_ < bytes_.size() && bytes_[at_] == '\n') ++at_;
    return;
  }
}

// Leaves `at_` on the separator that ends the field, or at the end.
std::string_view CsvReader::read_field() {
  while (at_ < bytes_.size() && (bytes_[at_] == ' ' || bytes_[at_] == '\t')) ++at_;
  constexpr std::string_view kSeparators = ",\r\n";
  if (at_ == bytes_.size() || bytes_[at_] != '"') {
    const size_t end = std::min(bytes_.find_first_of(kSeparators, at_), bytes_.size());
    const std::string_view field = bytes_.substr(at_, end - at_);
    at_ = end;
    return trimmed(field);
  }
  const size_t begin = ++at_;
  for (;;) {
    const size_t quote = bytes_.find('"', at_);
    if (quote == std::string_view::npos) {
      throw InputError(name_ + " row " + std::to_string(row_) + ": a quote is not closed");
    }
    at_ = quote + 1;
    if (at_ < bytes_.size() && bytes_[at_] == '"') {
      ++at_;
      continue;
    }
    const size_t end = std::min(bytes_.find_first_of(kSeparators, at_), bytes_.size());
    if (!trimmed(bytes_.substr(at_, end - at_)).empty()) {
      throw InputError(name_ + " row " + std::to_string(row_) + ": text follows a closing quote");
    }
    at_ = end;
    return bytes_.substr(begin, quote - begin);
  }
}

}  // namespace moetwin
