// JSON inside other files: parse_json with messages that always begin with where the text is from.
// Only .cpp files include it: it brings the JSON library.
#pragma once

#include <string>
#include <string_view>

#include "common/check.h"
#include "model/json_reader.h"

namespace moetwin {

/// As parse_json; every InputError begins with `place` ("FILE line 3").
inline Json parse_named_json(std::string_view text, const std::string& place) {
  try {
    return parse_json(text, place.c_str());
  } catch (const InputError& error) {
    const std::string_view message = error.what();
    if (message.substr(0, place.size()) == place) throw;
    throw InputError(place + ": " + std::string(message));
  }
}

}  // namespace moetwin
