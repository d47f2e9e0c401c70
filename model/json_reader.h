// The one checked way from JSON text to values: duplicate keys, deep nesting, huge files, unknown
// keys, wrong types and values out of range are each refused by one line that names the field. It
// knows nothing of what the fields mean. Only .cpp files include it: it brings the JSON library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moetwin {

using Json = nlohmann::json;

constexpr size_t kMaxJsonBytes = size_t{256} << 20;
constexpr size_t kMaxJsonDepth = 32;
// A text of 256 MiB could hold so many small values that reading it takes ten times its size.
constexpr size_t kMaxJsonValues = size_t{1} << 25;
constexpr size_t kMaxJsonContainers = size_t{1} << 22;

/// Parses UTF-8 text. `document` names it in errors that belong to no field. Throws InputError for
/// text that is not JSON, is over one of the limits above, or gives a key twice.
Json parse_json(std::string_view text, const char* document);

/// A file's bytes, at most kMaxJsonBytes of them. Throws InputError that names `document` and path.
std::string read_json_file(const std::string& path, const char* document);

/// Paths of fields, as in `routing.topk_idx[0][3]`. The empty path is the document itself. A key
/// that is no plain word is quoted and shortened, so that a path is always one short line.
std::string key_path(const std::string& parent, std::string_view key);
std::string index_path(const std::string& parent, size_t index);

/// A value in at most about 60 printable ASCII characters.
std::string show_value(const Json& value);

/// Throws InputError "path: text".
[[noreturn]] void refuse(const std::string& path, const std::string& text);
/// Throws InputError "path: VALUE is not LIMIT".
[[noreturn]] void refuse_value(const std::string& path, const Json& value,
                               const std::string& limit);

/// What an integer field may hold: low to high, and a multiple of `multiple`.
struct IntegerLimit {
  int64_t low = 0;
  int64_t high = std::numeric_limits<int64_t>::max();
  int64_t multiple = 1;

  std::string text() const;
};

struct NumberLimit {
  double low = 0;
  double high = 0;

  std::string text() const;
};

/// False unless `value` is a JSON integer (1.0 and 1e3 are none) within the limit.
bool try_integer(const Json& value, const IntegerLimit& limit, int64_t& out);
/// False unless `value` is a JSON number within the limit.
bool try_number(const Json& value, const NumberLimit& limit, double& out);

/// As try_integer, but throws InputError.
int64_t read_integer(const Json& value, const std::string& path, const IntegerLimit& limit);

/// The value, which must be an array. Throws InputError. `limit` says in words what it should hold.
const Json& read_array(const Json& value, const std::string& path, const std::string& limit);

/// One object of a document. Each accessor asks for one key; finish() refuses keys nobody asked
/// for. `_or` gives the fallback for an absent key, the others refuse one. A `null` is a value of
/// the wrong type, never an absent one. The Json must outlive the reader.
class JsonObject {
 public:
  JsonObject(const Json& value, std::string path);

  const Json* find(const char* key);
  int64_t integer(const char* key, const IntegerLimit& limit);
  int64_t integer_or(const char* key, const IntegerLimit& limit, int64_t fallback);
  double number_or(const char* key, const NumberLimit& limit, double fallback);
  bool flag_or(const char* key, bool fallback);
  /// 1 to `max_bytes` bytes, no NUL: names and paths end up in C strings.
  std::string text_or(const char* key, size_t max_bytes, const std::string& fallback);

  /// `names[i]` stands for the enumerator with value i.
  template <typename Enum, size_t kCount>
  Enum choice_or(const char* key, const char* const (&names)[kCount], Enum fallback) {
    const size_t index = choice_index(key, names, kCount, static_cast<size_t>(fallback));
    return static_cast<Enum>(index);
  }

  /// Throws InputError for the first key that no accessor asked for, listing those known.
  void finish() const;

  std::string path_of(std::string_view key) const { return key_path(path_, key); }

 private:
  size_t choice_index(const char* key, const char* const* names, size_t count, size_t fallback);

  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace moetwin
