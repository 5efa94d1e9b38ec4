# Debian packages; tools/setup installs them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(webp REQUIRED IMPORTED_TARGET libwebp libwebpdemux)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(libedit REQUIRED IMPORTED_TARGET libedit)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)

# LibTorch's wheel brings the headers of another version of fmt, without its library. Debian's must be
# found first, everywhere, or two versions would meet in one program.
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include-first)
file(CREATE_LINK ${fmt_include}/fmt ${CMAKE_BINARY_DIR}/include-first/fmt SYMBOLIC)
target_include_directories(colossal_flags INTERFACE
  $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/include-first>)
