# ebbtide_library(<folder> [DEPENDS <folder>...] [LINK <library>...] [OPTIONS <option>...] [HEADERS <header>...])
#
# Makes ebbtide_<folder> from all sources below src/<folder>, if there are any. Sources may include headers of
# <folder> and of the folders under DEPENDS, and of no other: CheckIncludes.cmake fails the build otherwise.
# OPTIONS: for the compiler. A folder with options or headers of its own has precompiled headers of its own, with HEADERS
# among them; all others have those of the first folder. An x.proto is compiled at build time and included by its path
# from src/: "model/onnx/x.pb.h".

define_property(GLOBAL PROPERTY EBBTIDE_FOLDERS BRIEF_DOCS "All libraries made so far")
set(EBBTIDE_GENERATED ${PROJECT_BINARY_DIR}/generated)

function(ebbtide_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS;LINK;OPTIONS;HEADERS")
  set(root ${PROJECT_SOURCE_DIR}/src)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${root}/${folder}/*.cc)
  file(GLOB_RECURSE protos CONFIGURE_DEPENDS ${root}/${folder}/*.proto)
  if(NOT sources)
    return()
  endif()

  set(target ebbtide_${folder})
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC ${root})
  target_compile_options(${target} PRIVATE ${arg_OPTIONS})
  get_property(made GLOBAL PROPERTY EBBTIDE_FOLDERS)
  if(made AND NOT arg_OPTIONS AND NOT arg_HEADERS)
    list(GET made 0 first)
    target_precompile_headers(${target} REUSE_FROM ebbtide_${first})
  else()
    target_precompile_headers(${target} PRIVATE ${EBBTIDE_COMMON_HEADERS} ${arg_HEADERS})
  endif()
  target_link_libraries(${target} PUBLIC ${arg_LINK})
  foreach(dependency IN LISTS arg_DEPENDS)
    if(TARGET ebbtide_${dependency})
      target_link_libraries(${target} PUBLIC ebbtide_${dependency})
    endif()
  endforeach()
  if(protos)
    ebbtide_protos(${target} ${protos})
  endif()

  ebbtide_layer(${folder} DEPENDS ${arg_DEPENDS})
  add_dependencies(${target} ebbtide_includes_${folder})

  set_property(GLOBAL APPEND PROPERTY EBBTIDE_FOLDERS ${folder})
endfunction()

# ebbtide_layer(<folder> [DEPENDS <folder>...]): makes ebbtide_includes_<folder>, which fails where a file of the folder
# (of src/, cli, or python/ebbtide/native) includes a header of another folder of src/ than those.
function(ebbtide_layer folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS")
  string(REPLACE "/" "_" name ${folder})
  set(scanned ${PROJECT_SOURCE_DIR}/src/${folder})
  if(NOT EXISTS ${scanned})
    set(scanned ${PROJECT_SOURCE_DIR}/${folder})
  endif()
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${scanned}/*.cc ${scanned}/*.h)
  set(stamp ${PROJECT_BINARY_DIR}/includes/${name}.ok)
  list(JOIN arg_DEPENDS "," allowed)
  add_custom_command(
    OUTPUT ${stamp}
    COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}/src -D FOLDER=${folder} -D ALLOWED=${allowed}
            -D STAMP=${stamp} -P ${PROJECT_SOURCE_DIR}/cmake/CheckIncludes.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/CheckIncludes.cmake ${PROJECT_SOURCE_DIR}/src/CMakeLists.txt
    COMMENT "Checking the includes of ${folder}"
    VERBATIM)
  add_custom_target(ebbtide_includes_${name} DEPENDS ${stamp})
endfunction()

# The generated code is a library of its own: our warnings do not apply to it.
function(ebbtide_protos target)
  find_package(Protobuf REQUIRED)
  set(generated)
  foreach(proto IN LISTS ARGN)
    cmake_path(RELATIVE_PATH proto BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/src OUTPUT_VARIABLE name)
    cmake_path(REMOVE_EXTENSION name LAST_ONLY)
    set(outputs ${EBBTIDE_GENERATED}/${name}.pb.cc ${EBBTIDE_GENERATED}/${name}.pb.h)
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${EBBTIDE_GENERATED}
      COMMAND protobuf::protoc --cpp_out=${EBBTIDE_GENERATED} -I ${PROJECT_SOURCE_DIR}/src ${proto}
      DEPENDS ${proto}
      COMMENT "Compiling src/${name}.proto"
      VERBATIM)
    list(APPEND generated ${outputs})
  endforeach()
  add_library(${target}_protos STATIC ${generated})
  target_compile_options(${target}_protos PRIVATE -w)
  target_include_directories(${target}_protos SYSTEM PUBLIC ${EBBTIDE_GENERATED})
  target_link_libraries(${target}_protos PUBLIC protobuf::libprotobuf)
  target_link_libraries(${target} PUBLIC ${target}_protos)
endfunction()

# All libraries, for the program and for tests of more than one folder.
function(ebbtide_all_libraries out)
  get_property(folders GLOBAL PROPERTY EBBTIDE_FOLDERS)
  list(TRANSFORM folders PREPEND ebbtide_)
  set(${out} ${folders} PARENT_SCOPE)
endfunction()
