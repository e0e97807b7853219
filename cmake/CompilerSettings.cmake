# How everything is compiled: C++20, position independent (the libraries also go into the Python module), warnings,
# the sanitizers that a preset asks for with EBBTIDE_SANITIZE, and ccache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug or Release" FORCE)
endif()
# Asserts stay on in a release: they guard invariants that hostile files try to break, and a stop beats a wrong answer.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

# Where there is a ccache, what was compiled before in this or another checkout is not compiled again. Precompiled
# headers are compared by their content, not by their age.
find_program(EBBTIDE_CCACHE ccache)
if(EBBTIDE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
      CCACHE_SLOPPINESS=pch_defines,time_macros ${EBBTIDE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()

# Headers of others that most files include, compiled once: ebbtide_base has them for all libraries, the tests have one
# set of their own. Those that few files include are left out, as every file pays for the size of the whole.
set(EBBTIDE_COMMON_HEADERS <algorithm> <array> <cmath> <cstdint> <functional> <limits> <map> <memory> <numeric> <optional>
    <set> <span> <string> <string_view> <tuple> <unordered_map> <utility> <variant> <vector> <fmt/format.h>
    <tl/expected.hpp>)
set(EBBTIDE_TEST_HEADERS ${EBBTIDE_COMMON_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)

set(EBBTIDE_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize= (address,undefined)")

add_compile_options(
  -Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  -Werror=return-type -Werror=switch -Werror=unused-result -Werror=non-virtual-dtor -Werror=format
  -Werror=uninitialized -Werror=implicit-fallthrough)
# At -O2 gcc 12 sees overflows in copies of short initializer lists that are not there.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-stringop-overflow -Wno-array-bounds -Wno-restrict)
endif()

if(EBBTIDE_SANITIZE)
  add_compile_options(-fsanitize=${EBBTIDE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${EBBTIDE_SANITIZE})
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()
