// The version of Colossal. CMakeLists.txt reads it from this file.
#pragma once

namespace colossal {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace colossal
