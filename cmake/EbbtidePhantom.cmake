# ebbtide_phantom_library(<folder> SONAME <name> STATUS <number>
#                         [GENERATION 12|13] [HEADERS 12|13] [VERSION_NODE <name>] [INCLUDES <folder>...])
#
# One library of the phantom GPU, from src/phantom/<folder>: *.cc over the phantom's core, and api.txt with all public
# functions of the library. What api.txt names and no source defines becomes a function that says "phantom: X is not
# modelled" and returns STATUS, the library's own "not supported"; a function that api.txt lacks stops the build.
# Lines of api.txt: the name, then in any order 12 or 13 (that generation only), void or null (what it returns) or launch
# (it is a kernel on the stream of its first argument, and no more is known of it: LaunchOfHandle in core/api.h), and the
# CUDA version since which it is there (for look-ups by name).
#
# With GENERATION the library is compiled against the headers of that CUDA generation and lies in build/phantom/cu12 or
# cu13; without, against those of 13, and both folders link to it. HEADERS: those of another generation. Sources named ordered_*.cc are compiled twice, the
# second time with CUDA_API_PER_THREAD_DEFAULT_STREAM, which renames what they define to its _ptds and _ptsz forms.
# VERSION_NODE: the version that the symbols carry, as programs linked against the real library ask for it.

define_property(GLOBAL PROPERTY EBBTIDE_PHANTOM_LIBRARIES BRIEF_DOCS "Those of both generations")
define_property(GLOBAL PROPERTY EBBTIDE_PHANTOM_LIBRARIES12 BRIEF_DOCS "Those of CUDA 12")
define_property(GLOBAL PROPERTY EBBTIDE_PHANTOM_LIBRARIES13 BRIEF_DOCS "Those of CUDA 13")
set(EBBTIDE_PHANTOM_FOLDER ${PROJECT_BINARY_DIR}/phantom)

function(ebbtide_phantom_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SONAME;STATUS;GENERATION;HEADERS;VERSION_NODE" "INCLUDES")
  set(root ${PROJECT_SOURCE_DIR}/src/phantom)
  set(generation ${arg_GENERATION})
  set(target phantom_${folder}${generation})
  if(NOT generation)
    set(generation 13)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${root}/${folder}/*.cc)
  if(NOT sources)
    return()
  endif()
  set(ordered ${sources})
  list(FILTER ordered INCLUDE REGEX "/ordered_[^/]*$")

  # The newer headers stand in for what the older generation's packages lack.
  set(includes ${arg_INCLUDES} ${EBBTIDE_CUDA13_INCLUDE})
  if(NOT arg_HEADERS)
    set(arg_HEADERS ${generation})
  endif()
  if(arg_HEADERS EQUAL 12)
    list(PREPEND includes ${EBBTIDE_CUDA12_INCLUDE})
  endif()
  add_library(${target}_objects OBJECT ${sources})
  set(objects $<TARGET_OBJECTS:${target}_objects>)
  set(object_targets ${target}_objects)
  if(ordered)
    add_library(${target}_per_thread OBJECT ${ordered})
    target_compile_definitions(${target}_per_thread PRIVATE CUDA_API_PER_THREAD_DEFAULT_STREAM)
    list(APPEND objects $<TARGET_OBJECTS:${target}_per_thread>)
    list(APPEND object_targets ${target}_per_thread)
  endif()
  foreach(part IN LISTS object_targets)
    target_link_libraries(${part} PRIVATE ebbtide_phantom)
    # Ours before the system's: the packages leave out crt/, and a toolkit in /usr/local may be of another generation.
    target_include_directories(${part} BEFORE PRIVATE ${root}/headers)
    target_include_directories(${part} SYSTEM PRIVATE ${includes})
    target_compile_definitions(${part} PRIVATE EBBTIDE_CUDA_GENERATION=${generation})
    target_compile_options(${part} PRIVATE -fvisibility=hidden -fvisibility-inlines-hidden -Wno-deprecated-declarations)
  endforeach()

  set(generated ${EBBTIDE_GENERATED}/phantom/${target})
  add_custom_command(
    OUTPUT ${generated}/stubs.cc ${generated}/exports.map
    COMMAND ${Python_EXECUTABLE} ${root}/make_stubs.py --api ${root}/${folder}/api.txt --generation ${generation}
            --status ${arg_STATUS} "--version-node=${arg_VERSION_NODE}" --nm ${CMAKE_NM} --output ${generated} ${objects}
    DEPENDS ${objects} ${root}/${folder}/api.txt ${root}/make_stubs.py
    COMMAND_EXPAND_LISTS
    COMMENT "Making what phantom/${folder} does not model"
    VERBATIM)
  add_library(${target} SHARED ${objects} ${generated}/stubs.cc)
  target_link_libraries(${target} PRIVATE ebbtide_phantom Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_options(${target} PRIVATE -fvisibility=hidden)
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL -Wl,--version-script=${generated}/exports.map)
  set_target_properties(${target} PROPERTIES
    PREFIX "" SUFFIX "" OUTPUT_NAME ${arg_SONAME} LINK_DEPENDS ${generated}/exports.map
    BUILD_RPATH "$ORIGIN;$ORIGIN/.." INSTALL_RPATH "$ORIGIN;$ORIGIN/..")

  set_property(GLOBAL APPEND PROPERTY EBBTIDE_PHANTOM_LIBRARIES${arg_GENERATION} ${target})
  if(arg_GENERATION)
    set(place cu${arg_GENERATION})
  else()
    set(place common)
    foreach(other IN ITEMS cu12 cu13)
      file(MAKE_DIRECTORY ${EBBTIDE_PHANTOM_FOLDER}/${other})
      file(CREATE_LINK ../common/${arg_SONAME} ${EBBTIDE_PHANTOM_FOLDER}/${other}/${arg_SONAME} SYMBOLIC)
    endforeach()
  endif()
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${EBBTIDE_PHANTOM_FOLDER}/${place})
  if(SKBUILD)
    install(TARGETS ${target} LIBRARY DESTINATION ebbtide/phantom/${place})
  endif()
endfunction()
