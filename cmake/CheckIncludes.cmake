# Which headers a folder may include. As a script, with -D FOLDER=<folder below src/, cli, or python/ebbtide/native>
# -D ALLOWED=<folders of src/, comma-separated> -D STAMP=<file>: fails when a file of the folder includes a header of a
# folder of src/ that is neither its own nor allowed, and writes STAMP when all is well; ROOT stands in for src/. Run at
# build time, and by CheckLayers.cmake for all folders at once.
cmake_minimum_required(VERSION 3.25)

# The faults of one folder are appended to the list that `out` names. `stages`: the folder of src/.
function(ebbtide_find_faults folder stages allowed out)
  set(scanned ${stages}/${folder})
  if(folder MATCHES "^(cli|python/ebbtide/native)$")
    set(scanned ${stages}/../${folder})
  endif()
  file(GLOB folders RELATIVE ${stages} ${stages}/*)
  file(GLOB_RECURSE files ${scanned}/*.cc ${scanned}/*.h)
  list(FILTER files EXCLUDE REGEX "/native/kernels/")  # compiled with torch alone
  set(faults ${${out}})
  foreach(file IN LISTS files)
    file(STRINGS ${file} includes REGEX "^[ \t]*#[ \t]*include[ \t]+[\"<]")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE "^[^\"<]*[\"<]([^\">]*)[\">].*$" "\\1" path "${include}")
      string(REGEX REPLACE "/.*$" "" first "${path}")
      if(first STREQUAL ".." OR path MATCHES "/\\.\\./")
        list(APPEND faults "${file}: \"${path}\" must be written from src/, as \"folder/file.h\"")
      elseif(first STREQUAL "cli" AND NOT folder STREQUAL "cli")
        list(APPEND faults "${file}: includes \"${path}\", but nothing may use cli")
      elseif(first IN_LIST folders AND path MATCHES "/" AND NOT first STREQUAL folder AND NOT first IN_LIST allowed)
        string(REPLACE ";" "," named "${allowed}")
        list(APPEND faults "${file}: includes \"${path}\", but ${folder} may use only: ${named} (src/CMakeLists.txt)")
      endif()
    endforeach()
  endforeach()
  set(${out} ${faults} PARENT_SCOPE)
endfunction()

function(ebbtide_report_faults faults)
  if(faults)
    list(JOIN faults "\n" text)
    message(FATAL_ERROR "A stage may use only the stages before it.\n${text}")
  endif()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  string(REPLACE "," ";" allowed "${ALLOWED}")
  set(faults)
  ebbtide_find_faults(${FOLDER} ${ROOT} "${allowed}" faults)
  ebbtide_report_faults("${faults}")
  file(WRITE ${STAMP} "")
endif()
