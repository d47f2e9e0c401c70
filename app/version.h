// The version that --version prints and golden files carry.
#pragma once

namespace moetwin {

constexpr const char* kVersion = "0.1.0";

}  // namespace moetwin
