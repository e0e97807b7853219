# ebbtide_embed_profiles(<target>): makes device/built_in_profiles.h, the text of every profiles/*.json, so that the
# program needs no files beside it.
function(ebbtide_embed_profiles target)
  file(GLOB profiles CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/profiles/*.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${profiles})
  set(rows "")
  foreach(profile IN LISTS profiles)
    file(READ ${profile} text)
    cmake_path(GET profile FILENAME name)
    string(APPEND rows "    {\"profiles/${name}\", R\"json(${text})json\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${EBBTIDE_GENERATED}/device/built_in_profiles.h @ONLY CONTENT [[
// Made from profiles/*.json by cmake/EmbedProfiles.cmake.
#pragma once

#include <string_view>
#include <utility>

namespace ebbtide {

inline constexpr std::pair<std::string_view, std::string_view> kBuiltInProfileTexts[] = {
@rows@};

}  // namespace ebbtide
]])
  target_include_directories(${target} PRIVATE ${EBBTIDE_GENERATED})
endfunction()
