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
# cu13; without, against those of 13, and both folders link to it. HEADERS: those of another generation. Where these are the same
# for both generations, what does not ask for EBBTIDE_CUDA_GENERATION is compiled once for both. Sources named
# ordered_*.cc are compiled twice, the second time with CUDA_API_PER_THREAD_DEFAULT_STREAM, which renames what they define to its _ptds and _ptsz forms. CUDA's headers cost more than the
# sources: several sources are compiled as one, so what they keep to themselves has names that differ within a folder.
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
  set(of_both)
  if(arg_GENERATION AND arg_HEADERS EQUAL 13 AND NOT ordered)
    foreach(source IN LISTS sources)
      file(STRINGS ${source} asks REGEX EBBTIDE_CUDA_GENERATION LIMIT_COUNT 1)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
      if(NOT asks)
        list(APPEND of_both ${source})
        list(REMOVE_ITEM sources ${source})
      endif()
    endforeach()
  endif()
  set(objects)
  foreach(part IN ITEMS both objects per_thread)
    set(name ${target}_${part})
    if(part STREQUAL "both")
      set(name phantom_${folder}_both)
      set(part_sources ${of_both})
    elseif(part STREQUAL "objects")
      set(part_sources ${sources})
    else()
      set(part_sources ${ordered})
    endif()
    if(NOT part_sources)
      continue()
    endif()
    list(APPEND objects $<TARGET_OBJECTS:${name}>)
    if(TARGET ${name})
      continue()
    endif()
    add_library(${name} OBJECT ${part_sources})
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 9)
    target_link_libraries(${name} PRIVATE ebbtide_phantom)
    # Ours before the system's: the packages leave out crt/, and a toolkit in /usr/local may be of another generation.
    target_include_directories(${name} BEFORE PRIVATE ${root}/headers)
    target_include_directories(${name} SYSTEM PRIVATE ${includes})
    target_compile_options(${name} PRIVATE -fvisibility=hidden -fvisibility-inlines-hidden -Wno-deprecated-declarations)
    if(part STREQUAL "both")
      target_compile_options(${name} PRIVATE -Werror=undef)  # a header of ours that asks for the generation
    else()
      target_compile_definitions(${name} PRIVATE EBBTIDE_CUDA_GENERATION=${generation})
    endif()
    if(part STREQUAL "per_thread")
      target_compile_definitions(${name} PRIVATE CUDA_API_PER_THREAD_DEFAULT_STREAM)
    endif()
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
