#include "model/json_reader.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "common/check.h"

namespace moetwin {
namespace {

constexpr size_t kMaxShown = 60;
constexpr size_t kMaxParserText = 200;

bool is_plain_key(std::string_view key) {
  constexpr std::string_view kWord =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return !key.empty() && key.size() <= kMaxShown &&
         key.find_first_not_of(kWord) == std::string_view::npos;
}

std::string show_string(std::string_view text) {
  const std::string shown = Json(std::string(text.substr(0, kMaxShown)))
                                .dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kMaxShown ? shown : shown.substr(0, shown.size() - 1) + "...\"";
}

// The library's reason without its prefix, as one line of printable ASCII.
std::string parser_text(const std::exception& error) {
  std::string text = error.what();
  const size_t prefix = text.find("] ");
  if (prefix != std::string::npos) text.erase(0, prefix + 2);
  if (text.size() > kMaxParserText) text = text.substr(0, kMaxParserText) + "...";
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text;
}

// Builds the document while the parser runs, because only there a key given twice is still seen
// and nesting can be refused before it is built. The parser itself keeps no recursion.
class DocumentBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit DocumentBuilder(const char* document) : document_(document) {}

  Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    Frame& frame = stack_.back();
    frame.key = std::move(value);
    if (frame.container->contains(frame.key)) {
      refuse(path(), "given twice; a key may be given once");
    }
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    refuse(path(), parser_text(error));
  }

 private:
  struct Frame {
    Json* container;
    std::string key;
  };

  std::string path() const {
    std::string path;
    for (const Frame& frame : stack_) {
      if (frame.container->is_array()) {
        // A container is already an element of its parent; anything else is not there yet.
        const bool is_last = &frame == &stack_.back();
        path = index_path(path, frame.container->size() - (is_last ? 0 : 1));
      } else if (!frame.key.empty()) {
        path = key_path(path, frame.key);
      }
    }
    return path.empty() ? document_ : path;
  }

  template <typename Value>
  bool put(Value&& value) {
    (void)place(Json(std::forward<Value>(value)));
    return true;
  }

  Json* place(Json value) {
    if (++values_ > kMaxJsonValues) {
      refuse(path(), "more than " + std::to_string(kMaxJsonValues) + " values in one text");
    }
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& container = *stack_.back().container;
    if (container.is_array()) {
      container.push_back(std::move(value));
      return &container.back();
    }
    Json& member = container[stack_.back().key];
    member = std::move(value);
    return &member;
  }

  bool open(Json container) {
    if (stack_.size() == kMaxJsonDepth) {
      refuse(path(), "nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    }
    if (++containers_ > kMaxJsonContainers) {
      refuse(path(),
             "more than " + std::to_string(kMaxJsonContainers) + " arrays and objects in one text");
    }
    Json* placed = place(std::move(container));
    stack_.push_back({placed, {}});
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  std::string document_;
  Json root_;
  std::vector<Frame> stack_;
  size_t values_ = 0;
  size_t containers_ = 0;
};

}  // namespace

void refuse(const std::string& path, const std::string& text) {
  throw InputError((path.empty() ? "case" : path) + ": " + text);
}

void refuse_value(const std::string& path, const Json& value, const std::string& limit) {
  refuse(path, show_value(value) + " is not " + limit);
}

std::string key_path(const std::string& parent, std::string_view key) {
  const std::string shown = is_plain_key(key) ? std::string(key) : show_string(key);
  return parent.empty() ? shown : parent + "." + shown;
}

std::string index_path(const std::string& parent, size_t index) {
  return parent + "[" + std::to_string(index) + "]";
}

std::string show_value(const Json& value) {
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  if (value.is_object()) return "an object";
  if (value.is_string()) return show_string(value.get_ref<const std::string&>());
  return value.dump();
}

Json parse_json(std::string_view text, const char* document) {
  if (text.size() > kMaxJsonBytes) {
    refuse(document, std::to_string(text.size()) + " bytes; at most 256 MiB are read");
  }
  // The parser would take a zero byte for the end.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    refuse(document, "byte " + std::to_string(zero) + " is zero, which no JSON text holds");
  }
  DocumentBuilder builder(document);
  const bool parsed = Json::sax_parse(text.begin(), text.end(), &builder);
  MOETWIN_CHECK(parsed);
  return builder.take();
}

std::string read_json_file(const std::string& path, const char* document) {
  // Opening a pipe that nobody writes would block; reading it then ends at once.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(fd < 0 ? nullptr : ::fdopen(fd, "rb"),
                                                             std::fclose);
  if (file == nullptr) {
    refuse(document, "cannot open " + show_string(path) + ": " + std::strerror(errno));
  }
  // A size is known before reading, except of a pipe.
  std::error_code no_size;
  const uintmax_t size = std::filesystem::file_size(path, no_size);
  if (!no_size && size > kMaxJsonBytes) {
    refuse(document, show_string(path) + " holds over 256 MiB, the most that is read");
  }
  std::string text;
  std::vector<char> piece(size_t{1} << 16);
  while (const size_t count = std::fread(piece.data(), 1, piece.size(), file.get())) {
    text.append(piece.data(), count);
    if (text.size() > kMaxJsonBytes) {
      refuse(document, show_string(path) + " holds over 256 MiB, the most that is read");
    }
  }
  if (std::ferror(file.get()) != 0) {
    refuse(document, "cannot read " + show_string(path) + ": " + std::strerror(errno));
  }
  return text;
}

std::string IntegerLimit::text() const {
  const std::string kind =
      multiple == 1 ? "an integer" : "a multiple of " + std::to_string(multiple);
  if (low == high) return std::to_string(low);
  return kind + " from " + std::to_string(low) + " to " + std::to_string(high);
}

std::string NumberLimit::text() const {
  return "a number from " + Json(low).dump() + " to " + Json(high).dump();
}

bool try_integer(const Json& value, const IntegerLimit& limit, int64_t& out) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return false;
  }
  out = value.get<int64_t>();
  return out >= limit.low && out <= limit.high && out % limit.multiple == 0;
}

bool try_number(const Json& value, const NumberLimit& limit, double& out) {
  if (!value.is_number()) return false;
  out = value.get<double>();
  return out >= limit.low && out <= limit.high;
}

int64_t read_integer(const Json& value, const std::string& path, const IntegerLimit& limit) {
  int64_t out = 0;
  if (try_integer(value, limit, out)) return out;
  if (value.is_number_float()) {
    refuse(path, show_value(value) + " is not written as an integer; it must be " + limit.text());
  }
  refuse_value(path, value, limit.text());
}

const Json& read_array(const Json& value, const std::string& path, const std::string& limit) {
  if (!value.is_array()) refuse_value(path, value, limit);
  return value;
}

JsonObject::JsonObject(const Json& value, std::string path)
    : object_(value), path_(std::move(path)) {
  if (!value.is_object()) refuse_value(path_, value, "an object");
}

const Json* JsonObject::find(const char* key) {
  known_.emplace(key);
  const Json::const_iterator it = object_.find(key);
  return it == object_.end() ? nullptr : &*it;
}

int64_t JsonObject::integer(const char* key, const IntegerLimit& limit) {
  const Json* value = find(key);
  if (value == nullptr) refuse(path_of(key), "missing; it must be " + limit.text());
  return read_integer(*value, path_of(key), limit);
}

int64_t JsonObject::integer_or(const char* key, const IntegerLimit& limit, int64_t fallback) {
  const Json* value = find(key);
  return value == nullptr ? fallback : read_integer(*value, path_of(key), limit);
}

double JsonObject::number_or(const char* key, const NumberLimit& limit, double fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  double out = 0;
  if (!try_number(*value, limit, out)) refuse_value(path_of(key), *value, limit.text());
  return out;
}

bool JsonObject::flag_or(const char* key, bool fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) refuse_value(path_of(key), *value, "true or false");
  return value->get<bool>();
}

std::string JsonObject::text_or(const char* key, size_t max_bytes, const std::string& fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  const std::string limit = "a string of 1 to " + std::to_string(max_bytes) + " bytes without NUL";
  if (!value->is_string()) refuse_value(path_of(key), *value, limit);
  const std::string& text = value->get_ref<const std::string&>();
  if (text.empty() || text.size() > max_bytes || text.find('\0') != std::string::npos) {
    refuse_value(path_of(key), *value, limit);
  }
  return text;
}

size_t JsonObject::choice_index(const char* key, const char* const* names, size_t count,
                                size_t fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  std::string limit = "one of";
  for (size_t i = 0; i < count; ++i) {
    if (value->is_string() && value->get_ref<const std::string&>() == names[i]) return i;
    limit += std::string(i == 0 ? " " : ", ") + names[i];
  }
  refuse_value(path_of(key), *value, limit);
}

void JsonObject::finish() const {
  for (const auto& item : object_.items()) {
    if (known_.count(item.key()) != 0) continue;
    std::string known;
    for (const std::string& key : known_) known += (known.empty() ? "" : ", ") + key;
    refuse(path_of(item.key()), "unknown; known are " + known);
  }
}

}  // namespace moetwin
