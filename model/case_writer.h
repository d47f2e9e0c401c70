// The JSON that written cases are made of. Internal to model/: only its .cpp files include it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/shape.h"

namespace moetwin {

/// Keeps keys in the order they were put in.
using OrderedJson = nlohmann::ordered_json;

OrderedJson shape_json(const Shape& shape);

/// The text of a case file, one section a line. `document` is an object. Throws InputError for
/// strings that are not UTF-8.
std::string layout_case(const OrderedJson& document);

}  // namespace moetwin
